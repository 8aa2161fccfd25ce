"""The examples in compose/examples, run as they are."""
