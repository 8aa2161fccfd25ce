/* A cyclic task on an ECU that measures itself, in C. It knows a broker and a topic, and no code of piriscale.
 *
 *     gcc -O2 -Wall -Wextra -o ecu ecu.c -lmosquitto        (Debian: gcc, libc6-dev, libmosquitto-dev)
 *     ./ecu HOST PORT NODE WORKLOAD
 *
 * Every 20 ms it has work to do that costs 10 ms of CPU. Twice a second it publishes how late after its planned start
 * the slowest cycle was done, how many cycles per second were done, and how many came too late: JSON over MQTT 3.1.1.
 * NODE is what the node's agent is called, WORKLOAD the container's name. */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <mosquitto.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CYCLE_MS 20.0
#define WORK_MS 10.0
#define CYCLES_PER_REPORT 25
#define CALIBRATION_ROUNDS 2000000L

static double now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

static void sleep_until_ms(double moment)
{
    struct timespec until = {.tv_sec = (time_t)(moment / 1e3)};
    until.tv_nsec = (long)((moment - until.tv_sec * 1e3) * 1e6);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

/* Stands for what the task computes. */
static void work(long rounds)
{
    static volatile uint32_t state = 1;
    for (long i = 0; i < rounds; i++)
        state = state * 1664525u + 1013904223u;
}

/* How many rounds cost WORK_MS of CPU time here, whatever the container may use. */
static long calibrate(void)
{
    double start = now_ms(CLOCK_PROCESS_CPUTIME_ID);
    work(CALIBRATION_ROUNDS);
    double spent = now_ms(CLOCK_PROCESS_CPUTIME_ID) - start;
    return (long)(CALIBRATION_ROUNDS * WORK_MS / (spent > 0.01 ? spent : 0.01));
}

static void publish(struct mosquitto *client, const char *topic, double slowest, double rate, int missed)
{
    char payload[160];
    int length = snprintf(payload, sizeof payload,
                          "{\"latency_ms\": %.2f, \"throughput\": %.2f, \"values\": {\"missed_cycles\": %d}}", slowest,
                          rate, missed);
    if (length > 0 && (size_t)length < sizeof payload)
        mosquitto_publish(client, NULL, topic, length, payload, 0, false);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s HOST PORT NODE WORKLOAD\n", argv[0]);
        return 2;
    }
    char topic[300];
    if (snprintf(topic, sizeof topic, "metrics/%s/app/%s", argv[3], argv[4]) >= (int)sizeof topic) {
        fprintf(stderr, "%s: names are too long\n", argv[0]);
        return 2;
    }

    mosquitto_lib_init();
    struct mosquitto *client = mosquitto_new(NULL, true, NULL);
    int error = client == NULL ? MOSQ_ERR_NOMEM : mosquitto_connect(client, argv[1], atoi(argv[2]), 30);
    if (error == MOSQ_ERR_SUCCESS)
        error = mosquitto_loop_start(client); /* connects again by itself when the broker was away */
    if (error != MOSQ_ERR_SUCCESS) {
        fprintf(stderr, "%s: %s\n", argv[0], mosquitto_strerror(error));
        return 1;
    }

    long rounds = calibrate();
    double planned = now_ms(CLOCK_MONOTONIC);
    for (;;) {
        double began = planned, slowest = 0;
        int missed = 0;
        for (int cycle = 0; cycle < CYCLES_PER_REPORT; cycle++) {
            sleep_until_ms(planned);
            work(rounds);
            double done = now_ms(CLOCK_MONOTONIC), late = done - planned;
            slowest = late > slowest ? late : slowest;
            missed += late > CYCLE_MS;
            planned = late > CYCLE_MS ? done : planned + CYCLE_MS; /* a missed cycle is not made up for */
        }
        publish(client, topic, slowest, CYCLES_PER_REPORT * 1e3 / (planned - began), missed);
    }
}
