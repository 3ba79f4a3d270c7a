package slurm

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// TestWhatSlurmSaysOfAJob reads lines of scontrol 22.05.
func TestWhatSlurmSaysOfAJob(t *testing.T) {
	line := func(fields string) string {
		return "JobId=7 JobName=muster-t1 UserId=alice(5000) GroupId=alice(5000) MCS_label=N/A Priority=4294901753 Nice=0 " +
			"Account=(null) QOS=(null) " + fields +
			" StartTime=2026-11-23T11:57:14 Command=/home/alice/.muster/JobState=COMPLETED NodeList=forged"
	}
	for name, c := range map[string]struct {
		text  string
		stage protocol.TaskStage
		exit  int
		nodes string
		flags string // timed out, lost, cancelled
		says  string
	}{
		"it waits": {line("JobState=PENDING Reason=Resources Dependency=(null) ExitCode=0:0 NodeList=(null)"),
			protocol.TaskWaits, 0, "", "", "waits in the queue: Resources"},
		"it is looked at": {line("JobState=PENDING Reason=None ExitCode=0:0 NodeList="), protocol.TaskWaits, 0, "", "",
			"waits in the queue"},
		"it runs": {line("JobState=RUNNING Reason=None ExitCode=0:0 NodeList=n[1-2] BatchHost=n1"), protocol.TaskRuns,
			0, "n1 n2", "", ""},
		"it is cleaned up": {line("JobState=COMPLETING Reason=None ExitCode=0:0 NodeList=n1"), protocol.TaskRuns, 0, "n1", "",
			""},
		"it has ended": {line("JobState=COMPLETED Reason=None ExitCode=0:0 NodeList=n1"), protocol.TaskEnded, 0, "n1", "",
			""},
		"it has failed": {line("JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0 NodeList=n1"), protocol.TaskEnded, 3,
			"n1", "", ""},
		"a signal ended it": {line("JobState=FAILED Reason=None ExitCode=0:11 NodeList=n1"), protocol.TaskEnded, 139, "n1", "",
			""},
		"it was too slow": {line("JobState=TIMEOUT Reason=TimeLimit ExitCode=0:15 NodeList=n1"), protocol.TaskEnded, 143, "n1",
			"timed out", ""},
		"its node was lost": {line("JobState=NODE_FAIL Reason=None ExitCode=0:0 NodeList=n1"), protocol.TaskEnded, 0, "n1",
			"lost", "NODE_FAIL"},
		"a user ended it": {line("JobState=CANCELLED Reason=None ExitCode=0:15 NodeList=n1"), protocol.TaskEnded, 143, "n1",
			"cancelled", "CANCELLED"},
		"no memory": {line("JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125 NodeList=n1"), protocol.TaskEnded,
			253, "n1", "", "out of memory"},
		"a state to come": {line("JobState=EVAPORATED ExitCode=0:0 NodeList=n1"), protocol.TaskEnded, 0, "n1", "lost",
			"EVAPORATED"},
	} {
		s, err := parseJob(c.text)
		flags := ""
		for word, is := range map[string]bool{"timed out": s.TimedOut, "lost": s.Lost, "cancelled": s.Cancelled} {
			if is {
				flags += word
			}
		}
		if err != nil || s.Stage != c.stage || s.Exit != c.exit || strings.Join(s.Nodes, " ") != c.nodes || flags != c.flags ||
			!strings.Contains(s.Text, c.says) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	for _, text := range []string{"", "no job", line("JobState=FAILED ExitCode=x:0"), line("JobState=RUNNING NodeList=n[1-")} {
		if s, err := parseJob(text); err == nil {
			t.Errorf("%q is understood: %+v", text, s)
		}
	}
}

// TestALostJobNamesItsLostNodes: those that are down, do not answer or are gone, where Slurm tells.
func TestALostJobNamesItsLostNodes(t *testing.T) {
	node := func(name, state string) string {
		return "NodeName=" + name + " Arch=x86_64 State=" + state + " ThreadsPerCore=1\n"
	}
	up := node("n1", "IDLE") + node("n2", "MIXED+DRAIN")
	for name, c := range map[string]struct{ state, nodes, says string }{
		"one is down":         {"NODE_FAIL", up + node("n3", "DOWN") + node("n4", "DOWN"), "n3 was lost: Slurm says NODE_FAIL"},
		"one does not answer": {"NODE_FAIL", up + node("n3", "IDLE*"), "n3 was lost: Slurm says NODE_FAIL"},
		"two are gone":        {"BOOT_FAIL", node("n1", "IDLE"), "n2, n3 were lost: Slurm says BOOT_FAIL"},
		"all are back":        {"NODE_FAIL", up + node("n3", "IDLE"), "Slurm says NODE_FAIL"},
		"no answer":           {"NODE_FAIL", "", "Slurm says NODE_FAIL"},
		"nonsense":            {"NODE_FAIL", "what", "Slurm says NODE_FAIL"},
		"a user ended it":     {"CANCELLED", up, "Slurm says CANCELLED"},
	} {
		control := Control{Exec: func(_ context.Context, argv ...string) ([]byte, error) {
			switch {
			case argv[2] == "job":
				return []byte("JobId=7 JobState=" + c.state + " ExitCode=0:0 NodeList=n[1-3]"), nil
			case c.nodes == "":
				return nil, errors.New("timed out")
			}
			return []byte(c.nodes), nil
		}}
		if s, err := control.Follow(t.Context(), "7"); err != nil || s.Text != c.says || len(s.Nodes) != 3 {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

// TestASubmissionSaysAllThatIsAskedFor and nothing else.
func TestASubmissionSaysAllThatIsAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		task  protocol.Task
		asked []string
		want  string
	}{
		"nothing": {protocol.Task{}, nil, ""},
		"nodes":   {protocol.Task{Nodes: 3}, nil, "--nodes=3 --ntasks-per-node=1"},
		"ranks":   {protocol.Task{Ranks: 8}, nil, "--ntasks=8"},
		"both": {protocol.Task{Nodes: 2, Ranks: 8, Queue: "cpu", Whole: true}, nil,
			"--nodes=2 --ntasks=8 --partition=cpu --exclusive"},
		"these nodes":    {protocol.Task{On: []string{"n1", "n3"}}, nil, "--nodelist=n1,n3 --nodes=2 --ntasks-per-node=1"},
		"a reservation":  {protocol.Task{Nodes: 1, Reservation: "maint"}, nil, "--nodes=1 --ntasks-per-node=1 --reservation=maint"},
		"by its script":  {protocol.Task{}, []string{"--nodes=2", "--ntasks=4"}, ""},
		"by both, nodes": {protocol.Task{Nodes: 3}, []string{"--ntasks=6"}, "--nodes=3"},
	} {
		c.task.Limit = 90 * time.Second
		argv := submission(scheduler.Work{Task: c.task, Name: "muster-t1", Script: "/job", Output: "/out"}, c.asked)
		at := slices.Index(argv, "--time=4")
		if at < 0 || argv[len(argv)-1] != "/job" || !slices.Contains(argv, "--no-requeue") ||
			!slices.Contains(argv, "--export=ALL") || !slices.Equal(argv[:2+len(c.asked)],
			append([]string{"sbatch", "--job-name=muster-t1"}, c.asked...)) {
			t.Fatal(name, argv)
		}
		if got := strings.Join(argv[at+1:len(argv)-1], " "); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// TestARefusedJobIsNone: what sbatch refuses is known not to run, and what it could not tell may.
func TestARefusedJobIsNone(t *testing.T) {
	for text, refused := range map[string]bool{
		"env: exit status 1: sbatch: error: invalid partition specified: x\nsbatch: error: Batch job submission failed: " +
			"Invalid partition name specified": true,
		"env: exit status 1: sbatch: error: Batch job submission failed: Socket timed out on send/recv operation":              false,
		"env: exit status 1: sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)": false,
		"env: killed by killed: ": false,
	} {
		w := scheduler.Work{As: func(context.Context, ...string) ([]byte, error) { return nil, errors.New(text) }}
		if _, err := (Control{}).Submit(t.Context(), w); err == nil || errors.Is(err, scheduler.ErrRefusedJob) != refused {
			t.Errorf("%s: %v", text, err)
		}
	}
	w := scheduler.Work{As: func(context.Context, ...string) ([]byte, error) { return []byte("12;test\n"), nil }}
	if job, err := (Control{}).Submit(t.Context(), w); job != "12" || err != nil {
		t.Error(job, err)
	}
}

func FuzzJobsAreReadOrRefused(f *testing.F) {
	f.Add("JobId=7 JobState=RUNNING NodeList=n[1-2] ExitCode=0:0")
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := parseJob(text); err == nil && s.Stage == "" {
			t.Errorf("%q has no stage", text)
		}
	})
}
