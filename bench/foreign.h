/* CPU time of everybody else: what a number measured on a shared machine has to be read with. */
#ifndef BENCH_FOREIGN_H
#define BENCH_FOREIGN_H

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES_MAX = 8192 };

typedef struct {
    int count;
    int pid[PROCESSES_MAX];
    uint64_t cpu_ns[PROCESSES_MAX];
} Census;

static uint64_t process_cpu_ns(int pid) {
    clockid_t clock;
    struct timespec t = {0};
    if (!clock_getcpuclockid(pid, &clock)) clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int is_among(int pid, const int *pids, int count) {
    for (int i = 0; i < count; i++)
        if (pids[i] == pid) return 1;
    return 0;
}

static void take_census(Census *census, const int *except, int excepted) {
    DIR *proc = opendir("/proc");
    census->count = 0;
    for (struct dirent *entry; proc && (entry = readdir(proc)) && census->count < PROCESSES_MAX;) {
        int pid = atoi(entry->d_name);
        if (pid <= 0 || is_among(pid, except, excepted) || pid == getpid()) continue;
        census->pid[census->count] = pid;
        census->cpu_ns[census->count++] = process_cpu_ns(pid);
    }
    if (proc) closedir(proc);
}

/* Processes that ended in between are missed, those that began are counted whole. */
static uint64_t foreign_ns(const Census *from, const Census *to) {
    uint64_t sum = 0;
    for (int i = 0, j = 0; i < to->count; i++) {
        while (j < from->count && from->pid[j] < to->pid[i]) j++;
        int same = j < from->count && from->pid[j] == to->pid[i];
        sum += to->cpu_ns[i] - (same && from->cpu_ns[j] <= to->cpu_ns[i] ? from->cpu_ns[j] : 0);
    }
    return sum;
}

#endif
