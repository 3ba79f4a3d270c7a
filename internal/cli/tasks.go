package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
)

func (a *app) tasks() *cobra.Command {
	return group(&cobra.Command{
		Use:   "tasks",
		Short: "List, show and cancel tasks started by `muster run`",
		Long: `Tasks are the programs started by ` + "`muster run`" + `. A cluster's tasks are kept until it is deleted, at most
1000 of them, with 64 MiB of the output of those that have ended. Only the person whose task it is sees its command, output and
samples.`,
		Example: `  muster tasks list hello
  muster tasks output tq6k7c4s2ya`,
	}, a.tasksList(), a.tasksGet(), a.tasksOutput(), a.tasksCancel())
}

func (a *app) tasksList() *cobra.Command {
	c := &cobra.Command{
		Use:               "list NAME",
		Aliases:           []string{"ls"},
		Short:             "List a cluster's tasks",
		Long:              `List a cluster's tasks, the newest last: who ran what, how it ended, and how long it took.`,
		Example:           `  muster tasks list hello`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(a.clusterNames),
	}
	var in apiv1.ListTasksInput
	return listing(a, c, apiv1.ListTasks, &in, func(tasks []apiv1.Task) { a.printTasks(in.Cluster, tasks) }, &in.Cluster)
}

func (a *app) printTasks(cluster string, tasks []apiv1.Task) {
	if len(tasks) == 0 {
		a.say("cluster %s has no tasks; `muster run %s -- COMMAND` runs one", cluster, cluster)
		return
	}
	t := newTable("ID", "USER", "PHASE", "EXIT", "NODES", "TOOK", "AGE", "COMMAND")
	for _, task := range tasks {
		phase := cmp.Or(string(task.Outcome), string(task.Phase))
		t.row(task.ID, task.Account, phase, textOf(task.Exit, strconv.Itoa), strings.Join(task.Nodes, ","), tookText(task),
			age(task.CreatedAt), workText(task.Work))
	}
	t.print(a.out)
}

func tookText(t apiv1.Task) string {
	if t.Began == nil || t.Ended == nil {
		return ""
	}
	return seconds(t.Ended.Sub(*t.Began))
}

// workText is what a task runs, in one line.
func workText(w *apiv1.TaskBody) string {
	switch {
	case w == nil:
		return ""
	case w.Script != "":
		return "a script of " + words.Size(int64(len(w.Script)))
	}
	return strings.Join(w.Command, " ")
}

func (a *app) tasksGet() *cobra.Command {
	c := &cobra.Command{
		Use:     "get TASK",
		Short:   "Show a task and its samples",
		Long:    `Show a task's state or how it ended, where it ran, and the samples that its program reported.`,
		Example: `  muster tasks get tq6k7c4s2ya -o json`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.TaskRef
	return showing(a, c, apiv1.GetTask, &ref, a.printTask, &ref.Task)
}

func (a *app) printTask(t apiv1.Task) {
	a.out.line("task %s of %s on cluster %s %s", t.ID, t.Account, t.Cluster, standingTask(t))
	for _, fact := range [][2]string{
		{"runs", workText(t.Work)}, {"exit status", textOf(t.Exit, strconv.Itoa)}, {"job", t.Job},
		{"asked for", t.CreatedAt.Local().Format(time.DateTime)},
		{"took", tookText(t)}, {"wrote", fmt.Sprintf("%s, kept %s", words.Size(t.Bytes), words.Size(t.Kept))},
	} {
		if fact[1] != "" {
			a.out.line("  %-12s %s", fact[0], fact[1])
		}
	}
	table := newTable("SAMPLE", "VALUE", "UNIT")
	for _, s := range t.Samples {
		table.row(s.Name, strconv.FormatFloat(s.Value, 'g', -1, 64), s.Unit)
	}
	table.printBelow(a.out)
}

func (a *app) tasksOutput() *cobra.Command {
	c := &cobra.Command{
		Use:   "output TASK",
		Short: "Show what a task wrote",
		Long: `Print the kept standard output and standard error of your task: unchanged to a file, without control characters to a terminal.
With -f, follow it until the task has ended, and exit with its exit status.`,
		Example: `  muster tasks output tq6k7c4s2ya > out.txt
  muster tasks output -f tq6k7c4s2ya`,
		Args: cobra.ExactArgs(1),
	}
	follow := c.Flags().BoolP("follow", "f", false, "follow the output until the task has ended")
	return a.verb(c, func(ctx context.Context, args []string) error {
		if *follow {
			return a.follow(ctx, args[0], asTable)
		}
		_, err := a.pour(ctx, args[0], 0)
		return err
	})
}

func (a *app) tasksCancel() *cobra.Command {
	c := &cobra.Command{
		Use:   "cancel TASK",
		Short: "Cancel a task",
		Long: `Cancel a task that waits or runs. Its programs get a few seconds to end. Owners of a project may cancel all of its
tasks.`,
		Example: `  muster tasks cancel tq6k7c4s2ya`,
		Args:    cobra.ExactArgs(1),
	}
	var ref apiv1.TaskRef
	return showing(a, c, apiv1.CancelTask, &ref, func(t apiv1.Task) {
		if t.Phase == apiv1.Ended {
			a.say("task %s %s", t.ID, standingTask(t))
			return
		}
		a.say("task %s is being cancelled", t.ID)
	}, &ref.Task)
}
