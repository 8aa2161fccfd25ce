"""Tests of piriscale; the folders mirror the source tree."""
