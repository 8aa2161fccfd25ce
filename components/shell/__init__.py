"""The one shell: it connects a component, which is logic without I/O, to the bus, to threads, logs and HTTP.

The same for all components. What a component decides is none of its business.
"""
