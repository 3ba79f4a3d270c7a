package slurm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// Errors that callers act upon.
var (
	// ErrBusy: jobs hold the node; ask again when they have ended.
	ErrBusy = errors.New("jobs are on the node")
	// ErrUnknown: Slurm knows no such node or job; for a removal this is success.
	ErrUnknown = errors.New("unknown to Slurm")
)

// patience bounds one command. Slurm's own programs try for 9 s to reach a slurmctld that is not there.
const patience = 3 * time.Second

// Control asks and changes Slurm through scontrol, squeue and scancel. One command costs about 5 ms of CPU. All methods
// may be called again; changing what is so already is a success.
type Control struct {
	// Exec runs a program to its end, as scheduler.Host says.
	Exec func(ctx context.Context, argv ...string) ([]byte, error)
}

// look is a view, and the jobs that are to be released.
type look struct {
	scheduler.View
	held []heldJob
}

// look reads all nodes, as Slurm lists them, and all jobs. What is known of jobs that wait is not asked for again.
func (c Control) look(ctx context.Context, known *requests, v version) (l look, err error) {
	text, err := c.run(ctx, "show nodes", "scontrol", "show", "nodes", "-o")
	if err != nil {
		return l, err
	}
	nodes, err := parseNodes(text)
	if err != nil {
		return l, fmt.Errorf("slurm: show nodes: %w", err)
	}
	// One list of those that run and those that wait: none is in both, or in neither, because it started between two.
	text, err = c.run(ctx, "list jobs", "SLURM_TIME_FORMAT=%s", "SLURM_BITSTR_LEN=0", "squeue", "-h", "-t", jobStates,
		"-S", "-p,i", "-O", jobFormat())
	if err != nil {
		return l, err
	}
	jobs, err := parseJobs(text, time.Now())
	if err != nil {
		return l, fmt.Errorf("slurm: list jobs: %w", err)
	}
	first, total := bounded(jobs.waiting)
	asked, err := known.of(ctx, c, v, first)
	if err != nil {
		return l, err
	}
	l.Jobs, l.Waiting, l.held = jobs.running, protocol.Waiting{Total: total, Jobs: asked}, jobs.held
	for _, node := range nodes {
		node.Jobs = len(l.Jobs[node.Name])
		node.State = node.state()
		l.Nodes = append(l.Nodes, node.NodeState)
	}
	return l, nil
}

// Drain lets no new job start on the node; running ones go on.
func (c Control) Drain(ctx context.Context, node, reason string) error {
	return c.update(ctx, node, "drain", reason)
}

// Down declares the node dead: its jobs are ended, and start again elsewhere if they may.
func (c Control) Down(ctx context.Context, node, reason string) error {
	return c.update(ctx, node, "down", reason)
}

// Resume ends Drain and Down. A node that is only drained is not to register again, which "resume" has it do: slurmd then removes
// scripts of jobs that it does not know, and one may be of a job that begins at this moment, as jobs do that have waited for it.
func (c Control) Resume(ctx context.Context, node string) error {
	text, err := c.run(ctx, "show node "+node, "scontrol", "show", "node", "-o", node)
	if err != nil {
		return err
	}
	now, err := parseNode(strings.TrimSpace(text))
	if err != nil {
		return fmt.Errorf("slurm: show node %s: %w", node, err)
	}
	state := "undrain"
	if now.Raw == "down" {
		state = "resume"
	}
	err = c.update(ctx, node, state, "")
	if err != nil && strings.Contains(err.Error(), "Invalid node state specified") {
		return nil // it is in service: there is nothing to end
	}
	return err
}

func (c Control) update(ctx context.Context, node, state, reason string) error {
	argv := []string{"scontrol", "update", "nodename=" + node, "state=" + state}
	if reason != "" {
		argv = append(argv, "reason="+reason)
	}
	_, err := c.run(ctx, state+" node "+node, argv...)
	return err
}

// Delete makes Slurm forget the node. ErrBusy while jobs are on it, ErrUnknown if it is not there.
func (c Control) Delete(ctx context.Context, node string) error {
	_, err := c.run(ctx, "delete node "+node, "scontrol", "delete", "nodename="+node)
	return err
}

// End takes the job off its nodes: back into the queue, or cancelled if it may not be queued again. A job that waits in the
// queue is left there.
func (c Control) End(ctx context.Context, job int) error {
	id := strconv.Itoa(job)
	_, err := c.run(ctx, "requeue job "+id, "scontrol", "requeue", id)
	if err == nil || errors.Is(err, ErrUnknown) || strings.Contains(err.Error(), "Job is pending execution") {
		return nil
	}
	if _, err := c.run(ctx, "cancel job "+id, "scancel", id); err != nil && !errors.Is(err, ErrUnknown) {
		return err
	}
	return nil
}

// Nudge makes Slurm look at once which jobs can run on nodes that have come. By itself it may do so only half a minute
// later: a dynamic node that registers does not wake Slurm 22.05's scheduler, and any change of a node does.
func (c Control) Nudge(ctx context.Context, nodes []string) error {
	_, err := c.run(ctx, "look at new nodes", "scontrol", "update", "nodename="+strings.Join(nodes, ","), "comment=joined")
	if errors.Is(err, ErrUnknown) {
		return nil // gone again
	}
	return err
}

func (c Control) run(ctx context.Context, what string, argv ...string) (string, error) {
	return c.within(ctx, patience, what, argv...)
}

func (c Control) within(ctx context.Context, limit time.Duration, what string, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer from Slurm for %v", limit))
	defer cancel()
	out, err := c.Exec(ctx, argv...)
	if err == nil {
		return string(out), nil
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "Requested nodes are busy"):
		err = ErrBusy
	case strings.Contains(text, "Invalid node name"), strings.Contains(text, "Invalid job id"):
		err = ErrUnknown
	}
	return "", fmt.Errorf("slurm: %s: %w", what, err)
}
