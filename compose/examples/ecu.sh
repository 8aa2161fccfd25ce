#!/bin/sh
# A job on an ECU that measures itself, in one line of shell. It knows a broker and a topic, and no code of piriscale.
#
#     ./ecu.sh HOST PORT NODE WORKLOAD        (Debian: mosquitto-clients)
#
# It compresses logs again and again, and publishes how long each took: JSON over MQTT 3.1.1, through one connection.
# NODE is what the node's agent is called, WORKLOAD the container's name.

while s=$(date +%s%N); do head -c 4000000 /dev/zero | gzip >/dev/null; echo "{\"latency_ms\": $((($(date +%s%N) - s) / 1000000))}"; done | mosquitto_pub -h "$1" -p "$2" -l -t "metrics/$3/app/$4"
