"""How messages are carried: the bus client (the only place that imports paho) and its in-memory twin.

Also Mosquitto's configuration and the managed broker. Knows frames and topics, not what they mean.
"""
