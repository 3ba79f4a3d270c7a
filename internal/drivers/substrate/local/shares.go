package local

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"muster/internal/kit/clock"
)

// Processes and threads, tasks to the kernel, have numbers that all nodes of a host share with it. Each node may have a few at
// its start; from then on it is told, each second, how many it may have: what it has and a share of what is left. So all of them
// together never come to what the host keeps, however fast they fork between two looks, and a cluster that takes all it can
// leaves to each other one its share. With that each is told what it weighs where all want CPUs: together as much as a few groups
// of the host's, however many they are, so that the host has time for its own. And its sockets get a bound, where they have none.

const (
	tasksAtStart = 1024
	tasksLook    = time.Second
	tasksStep    = 64 // smaller changes are not worth a write
	nodesWeigh   = 4  // groups' usual weights, all nodes of the host together
)

// allTasks is how many processes and threads this host can have.
func allTasks() int64 {
	least := int64(math.MaxInt64)
	for _, name := range []string{"pid_max", "threads-max"} {
		text, _ := os.ReadFile("/proc/sys/kernel/" + name) // no number if it cannot be read
		n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			n = 32768 // what the kernel had before it could be changed
		}
		least = min(least, n)
	}
	return least
}

// GuardShares shares out what nodes have of the host until ctx ends.
func (d *Driver) GuardShares(ctx context.Context) {
	for told := false; ctx.Err() == nil; {
		err := d.share(allTasks())
		if err != nil && !told {
			d.config.Log.Error("cannot share out what nodes have of the host", "error", err)
		}
		told = err != nil
		_ = clock.Sleep(ctx, tasksLook)
	}
}

// share tells each node once how many tasks it may have, and what it weighs.
func (d *Driver) share(all int64) error {
	if !d.cgroups.Pids {
		return nil
	}
	text, err := os.ReadFile("/proc/loadavg") // proc_loadavg(5): the fourth field is RUNNABLE/ALL
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "/")
	number, _, _ := strings.Cut(rest, " ")
	host, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return fmt.Errorf("read /proc/loadavg: %w", err)
	}
	homes, err := filepath.Glob(filepath.Join(d.config.Dir, "nodes", "*.*"))
	if err != nil {
		return err
	}
	has := map[string]map[string]int64{}
	for _, dir := range homes {
		key := filepath.Base(dir)
		cluster, _, _ := strings.Cut(key, ".")
		boots, err := home{key, dir}.boots()
		if err != nil {
			return err
		}
		for _, b := range boots {
			n, err := strconv.ParseInt(d.cgroups.Read(b.name, "pids.current"), 10, 64)
			if err != nil {
				continue // it does not run
			}
			if has[cluster] == nil {
				has[cluster] = map[string]int64{}
			}
			has[cluster][b.name] = n
			host -= n
		}
	}
	allowed := allowTasks(all, host, has)
	for name, most := range allowed {
		err := errors.Join(d.cgroups.LimitPids(name, most-most%tasksStep),
			d.cgroups.Weigh(name, min(1, nodesWeigh/float64(len(allowed)))), d.cgroups.BoundSockets(name))
		if err != nil {
			return err
		}
	}
	return nil
}

// allowTasks is how many tasks each node may have, by what it has: cluster → node → tasks. A quarter of all stays the host's,
// beside what it has. Half of the rest is divided among the clusters, each part for its cluster alone; from the other half any
// cluster takes, and each is allowed an equal part of what is left of it until the next look.
func allowTasks(all, host int64, has map[string]map[string]int64) map[string]int64 {
	clusters := max(1, int64(len(has)))
	nodes := max(0, all-all/4-host)
	share := nodes / 2 / clusters
	left, common, sums := nodes, nodes-share*clusters, map[string]int64{}
	for cluster, of := range has {
		for _, n := range of {
			sums[cluster] += n
		}
		left -= sums[cluster]
		common -= max(0, sums[cluster]-share)
	}
	rooms, sum := map[string]int64{}, int64(0)
	for cluster := range has {
		rooms[cluster] = max(0, share-sums[cluster]) + max(0, common)/clusters
		sum += rooms[cluster]
	}
	allowed := map[string]int64{}
	for cluster, of := range has {
		room := rooms[cluster]
		if sum > left { // some have more than they may: they were begun before the others came
			room = room * max(0, left) / sum
		}
		for name, n := range of {
			allowed[name] = min(n+room/int64(len(of)), all/4)
		}
	}
	return allowed
}
