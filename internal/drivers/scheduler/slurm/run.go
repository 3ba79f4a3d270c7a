package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/hostlist"
	"muster/internal/kit/words"
	"muster/internal/protocol"
)

// Submit runs sbatch as the job's user. A job that sbatch itself has refused is none; an answer that was lost may be one.
func (c Control) Submit(ctx context.Context, w scheduler.Work) (string, error) {
	asked, _, err := directives(w.Task.Script)
	if err != nil {
		return "", fmt.Errorf("%w: %w", scheduler.ErrRefusedJob, err)
	}
	out, err := w.As(ctx, submission(w, asked)...)
	if err != nil {
		if text := err.Error(); strings.Contains(text, "Batch job submission failed") ||
			strings.Contains(text, "sbatch: error: ") {
			if !strings.Contains(text, "Unable to contact") && !strings.Contains(text, "timed out") &&
				!strings.Contains(text, "onnection") {
				return "", fmt.Errorf("%w: %s", scheduler.ErrRefusedJob, said(text))
			}
		}
		return "", fmt.Errorf("slurm: submit %s: %w", w.Name, err)
	}
	job, _, _ := strings.Cut(strings.TrimSpace(string(out)), ";")
	if _, err := strconv.ParseUint(job, 10, 32); err != nil {
		return "", fmt.Errorf("slurm: submit %s: sbatch says %.100q", w.Name, out)
	}
	return job, nil
}

// said is what sbatch has against a job, in one line.
func said(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if _, reason, found := strings.Cut(line, "sbatch: error: "); found {
			lines = append(lines, strings.TrimPrefix(strings.TrimSpace(reason), "Batch job submission failed: "))
		}
	}
	return strings.Join(lines, "; ")
}

// submission is sbatch's command line. What the script's directives ask for counts for less than what the task does, and what a
// user has set for sbatch by environment for less than both. The name is for people; the job is found by its comment. The job's
// environment is sbatch's own, in which there is nothing of the agent's: were it told to export none, what a script starts by
// srun or mpirun would have none, not even a PATH.
func submission(w scheduler.Work, asked []string) []string {
	minutes := int64((w.Limit + scheduler.Slack + time.Minute - 1) / time.Minute)
	argv := append([]string{"sbatch", "--job-name=" + w.Name}, asked...)
	argv = append(argv, "--parsable", "--comment="+w.Name, "--no-requeue", "--export=ALL", "--open-mode=append",
		"--input=/dev/null", "--output="+w.Output, fmt.Sprintf("--time=%d", minutes))
	nodes := w.Nodes
	if len(w.On) > 0 {
		nodes = len(w.On)
		argv = append(argv, "--nodelist="+strings.Join(w.On, ","))
	}
	if nodes > 0 {
		argv = append(argv, fmt.Sprintf("--nodes=%d", nodes))
	}
	switch {
	case w.Ranks > 0:
		argv = append(argv, fmt.Sprintf("--ntasks=%d", w.Ranks))
	case nodes > 0 && len(asked) == 0:
		argv = append(argv, "--ntasks-per-node=1")
	}
	if w.Queue != "" {
		argv = append(argv, "--partition="+w.Queue)
	}
	if w.Whole {
		argv = append(argv, "--exclusive")
	}
	if w.Reservation != "" {
		argv = append(argv, "--reservation="+w.Reservation)
	}
	return append(argv, w.Script)
}

// Launch is how a script starts a command once a rank.
func (Control) Launch() string { return "srun --input=none" }

// Find looks for the job by its comment, among those of its user alone: another could have given one that. Jobs of agents of
// earlier versions have it as their name.
func (c Control) Find(ctx context.Context, w scheduler.Work) (string, error) {
	out, err := c.run(ctx, "find job "+w.Name, "squeue", "-h", "-t", "all", "-u", w.Account, "-o", "%i|%k|%j")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(out) {
		if part := strings.SplitN(strings.TrimSpace(line), "|", 3); len(part) == 3 && (part[1] == w.Name || part[2] == w.Name) {
			return part[0], nil
		}
	}
	return "", nil
}

// Follow asks for one job.
func (c Control) Follow(ctx context.Context, job string) (scheduler.JobState, error) {
	text, err := c.run(ctx, "show job "+job, "scontrol", "show", "job", "-o", job)
	if errors.Is(err, ErrUnknown) {
		return scheduler.JobState{Forgotten: true}, nil
	}
	if err != nil {
		return scheduler.JobState{}, err
	}
	s, err := parseJob(text)
	if s.Lost {
		s.Text = c.lost(ctx, s.Nodes) + s.Text
	}
	return s, err
}

// lost says which nodes of a job Slurm has lost: they are down, do not answer or are not there any more. "": none is, or Slurm
// does not tell.
func (c Control) lost(ctx context.Context, nodes []string) string {
	text, err := c.run(ctx, "show nodes", "scontrol", "show", "nodes", "-o")
	if err != nil {
		return ""
	}
	all, err := parseNodes(text)
	if err != nil {
		return ""
	}
	heard := map[string]bool{}
	for _, n := range all {
		heard[n.Name] = n.Raw != "down" && n.Responding
	}
	lost := slices.DeleteFunc(slices.Clone(nodes), func(name string) bool { return heard[name] })
	if len(lost) == 0 {
		return ""
	}
	return words.Were(lost, "lost: ")
}

// Cancel ends a job. Its programs get some seconds to end.
func (c Control) Cancel(ctx context.Context, job string) error {
	_, err := c.run(ctx, "cancel job "+job, "scancel", job)
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	return err
}

// parseJob reads what `scontrol show job -o` prints. A job's name and paths may be anything, but have no newline; the fields
// that are read here come before them, or hold no blank.
func parseJob(text string) (scheduler.JobState, error) {
	fields := map[string]string{}
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		if _, twice := fields[key]; !twice {
			fields[key] = value
		}
	}
	state, reason := fields["JobState"], fields["Reason"]
	var s scheduler.JobState
	if list := fields["NodeList"]; list != "" && list != "(null)" {
		var err error
		if s.Nodes, err = hostlist.Expand(list, hostlist.Most); err != nil {
			return s, fmt.Errorf("slurm: show job: %w", err)
		}
	}
	s.Stage = protocol.TaskEnded
	switch state {
	case "PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD":
		s.Stage, s.Nodes = protocol.TaskWaits, nil
		s.Text = "waits in the queue"
		if reason != "" && reason != "None" {
			s.Text += ": " + reason
		}
		return s, nil
	case "RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT", "COMPLETING":
		s.Stage = protocol.TaskRuns
		return s, nil
	case "COMPLETED", "FAILED":
	case "TIMEOUT", "DEADLINE":
		s.TimedOut = true
	case "CANCELLED", "PREEMPTED", "REVOKED":
		s.Cancelled, s.Text = true, "Slurm says "+state
	case "NODE_FAIL", "BOOT_FAIL":
		s.Lost, s.Text = true, "Slurm says "+state
	case "OUT_OF_MEMORY":
		s.Text = "out of memory"
	case "":
		return s, errors.New("slurm: show job: it has no state")
	default:
		s.Lost, s.Text = true, "Slurm says "+state
	}
	code, signal, _ := strings.Cut(fields["ExitCode"], ":")
	exit, err1 := strconv.Atoi(code)
	by, err2 := strconv.Atoi(signal)
	if err := errors.Join(err1, err2); err != nil {
		return s, fmt.Errorf("slurm: show job: %w", err)
	}
	if s.Exit = exit; by > 0 {
		s.Exit = 128 + by
	}
	return s, nil
}
