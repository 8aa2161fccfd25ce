"""The picture of the whole system, folded from messages: what there is, what runs, and what needs attention.

Pure and bounded: messages and the time go in, and nothing is read, sent or started here.
"""
