package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/clock"
	"muster/internal/kit/duration"
	"muster/internal/kit/words"
)

// mostScript is how long a script may be; the controller refuses longer ones, but need not be sent a whole disk.
const mostScript = 64 << 10

func (a *app) runOn() *cobra.Command {
	c := &cobra.Command{
		Use:   "run NAME [flags] -- COMMAND [ARGUMENT…]",
		Short: "Run a program on a cluster, without logging in",
		Long: `Run a program on a cluster as yourself, show its output, and exit with its exit status. The cluster's scheduler
starts it like any job, once on each node asked for, or --ranks times. With --script a file is run instead, once, on the first
of the nodes; it may start others by srun or mpirun. On a cluster without a scheduler, programs run on the head.

It goes on when you stop watching, while the controller is away, and when the head is rebooted. ` + "`muster tasks`" + ` shows
it and the first 8 MiB of its output, and cancels it. It is never started twice: if nobody can know whether it ran, it is
reported as lost.

A program reports samples as lines NAME VALUE [UNIT] in the file that MUSTER_SAMPLES names; they are kept with the task.`,
		Example: `  muster run hello -- hostname
  muster run hello --nodes 3 -- hostname
  muster run cfd --ranks 64 --limit 30m -- ./solver input.dat
  muster run cfd --on n1,n2 --whole --script job.sh
  muster run hello --detach -- ./long`,
		ValidArgsFunction: a.completeFirst(a.clusterNames),
		Args:              cobra.MinimumNArgs(1),
	}
	var in apiv1.RunTaskInput
	var limit time.Duration
	flags := c.Flags()
	flags.SetInterspersed(true)
	flags.IntVarP(&in.Body.Nodes, "nodes", "N", 0, "run on `N` nodes, once on each without --ranks")
	flags.StringSliceVar(&in.Body.On, "on", nil, "run on these `NODES`, such as n1,n2")
	flags.IntVarP(&in.Body.Ranks, "ranks", "n", 0, "start it `N` times, spread over the nodes")
	flags.StringVar(&in.Body.Queue, "queue", "", "run on nodes of this `QUEUE` (default: the first)")
	flags.BoolVar(&in.Body.Whole, "whole", false, "share the nodes with no other job")
	flags.Var((*duration.Value)(&limit), "limit", "end it after running for this `TIME`, such as 90s or 10m (default 1h)")
	script := flags.String("script", "", "run this `FILE`, or - for standard input, instead of a command")
	detach := flags.BoolP("detach", "d", false, "print its ID and don't wait for its end")
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, args []string) error {
		in.Cluster, in.Body.Command = args[0], args[1:]
		if (len(in.Body.Command) > 0) == (*script != "") {
			return usage("say what to run: `muster run %s -- COMMAND`, or --script FILE", args[0])
		}
		for _, word := range in.Body.Command {
			if !utf8.ValidString(word) {
				return usage("%q is not UTF-8; put it into a file, or into a script that writes it as $'\\xe4'", word)
			}
		}
		if limit > 0 {
			in.Body.Limit = limit.String()
		}
		if *script != "" {
			text, err := a.script(*script)
			if err != nil {
				return err
			}
			in.Body.Script = text
		}
		task, raw, err := apiv1.RunTask.Call(ctx, a, in)
		if err != nil {
			return err
		}
		if *detach {
			return output.print(a.out, raw, func() { a.out.line("%s", task.ID) })
		}
		return a.follow(ctx, task.ID, *output)
	})
}

// script reads what is to run.
func (a *app) script(name string) (string, error) {
	from := a.in
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return "", err
		}
		defer file.Close()
		from = file
	}
	text, err := io.ReadAll(io.LimitReader(from, mostScript+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read the script: %w", err)
	case len(text) == 0:
		return "", usage("the script is empty")
	case len(text) > mostScript:
		return "", usage("the script has more than %s", words.Size(mostScript))
	}
	if line := notUTF8(text); line > 0 { // which JSON would change
		return "", usage("%s:%d: is not UTF-8; `iconv -f latin1 -t utf8` converts it, if it is Latin-1", name, line)
	}
	return string(text), nil
}

// follow shows what a task writes until it has ended, and ends as it does. For other formats it shows the task instead.
func (a *app) follow(ctx context.Context, id string, output format) error {
	told, from, since := "", int64(0), time.Now()
	for {
		task, raw, err := apiv1.GetTask.Call(ctx, a, apiv1.TaskRef{Task: id})
		if err == nil && output == asTable {
			from, err = a.pour(ctx, id, from)
		}
		switch {
		case ctx.Err() != nil:
			a.say("task %s goes on; `muster tasks get %s` shows it, `muster tasks cancel %s` ends it", id, id, id)
			return silent{context.Cause(ctx)}
		case err != nil:
			return fmt.Errorf("%w (task %s goes on)", err, id)
		case task.Phase == apiv1.Ended:
			return a.ended(task, raw, output)
		}
		if text := standingTask(task); text != told && task.Phase != apiv1.Running && time.Since(since) > a.timing.look {
			told = text
			a.say("task %s %s", id, text)
		}
		_ = clock.Sleep(ctx, a.timing.draw*2)
	}
}

// pour writes what a task has written from a byte on, and returns where it goes on.
func (a *app) pour(ctx context.Context, id string, from int64) (int64, error) {
	to := a.foreign()
	for {
		piece, _, err := apiv1.GetTaskOutput.Call(ctx, a, apiv1.GetTaskOutputInput{TaskRef: apiv1.TaskRef{Task: id}, From: from})
		if err != nil || len(piece.Bytes) == 0 {
			return from, err
		}
		if _, err := to.Write(piece.Bytes); err != nil {
			return from, err
		}
		from = piece.Next
	}
}

// foreign is where a program's output goes: as it is to a file or another program, made fit to a terminal.
func (a *app) foreign() io.Writer {
	if _, is := terminal(a.out); is {
		return a.out.prose()
	}
	return a.out.raw()
}

// ended tells how a task has ended, by the exit status too.
func (a *app) ended(task apiv1.Task, raw []byte, output format) error {
	if err := output.print(a.out, raw, func() {}); err != nil {
		return err
	}
	if task.Bytes > task.Kept && output == asTable {
		a.say("task %s wrote %s; only the first %s were kept", task.ID, words.Size(task.Bytes), words.Size(task.Kept))
	}
	switch {
	case task.Outcome == apiv1.TaskOK:
		return nil
	case task.Outcome == apiv1.TaskFailed && task.Exit != nil && *task.Exit > 0:
		return exitCode(*task.Exit)
	}
	return errors.New("task " + task.ID + " " + standingTask(task))
}

// standingTask is how far a task is, in words.
func standingTask(t apiv1.Task) string {
	text := map[apiv1.Phase]string{apiv1.Pending: "waits", apiv1.Queued: "is queued", apiv1.Running: "runs"}[t.Phase]
	if t.Phase == apiv1.Ended {
		text = map[apiv1.TaskOutcome]string{apiv1.TaskOK: "has ended", apiv1.TaskFailed: "has failed",
			apiv1.TaskTimedOut: "was ended at its time limit", apiv1.TaskCancelled: "was cancelled",
			apiv1.TaskLost: "is lost: nobody knows whether it ran"}[t.Outcome]
	}
	return text + textIf(len(t.Nodes) > 0, " on "+strings.Join(t.Nodes, ", ")) + textIf(t.Reason != "", ": "+t.Reason)
}
