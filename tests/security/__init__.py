"""Who is let in and may do what, on a real Mosquitto with mutual TLS."""
