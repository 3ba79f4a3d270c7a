package external

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	externals "muster/internal/kinds/external"
	"muster/internal/kit/printable"
	"muster/internal/protocol"
)

// figures are a queue as the tests write it: up, nodes, free, used, running, waiting; -1: not told.
type figures struct {
	name          string
	up            bool
	state         string
	n             [3]int
	running, wait int
}

func figuresOf(queues []externals.Queue) (all []figures) {
	number := func(n *int) int {
		if n == nil {
			return -1
		}
		return *n
	}
	for _, q := range queues {
		all = append(all, figures{q.Name, q.Up, q.State, [3]int{q.Nodes, q.Free, q.Used}, number(q.Running), number(q.Waiting)})
	}
	return all
}

func recorded(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const slurmAnswer = "Last login: never\n#muster slurm\nslurm-wlm 22.05.8\ncpu|up|3/5/1/9|64+|2|257000\ngpu|inact|0/0/2/2|32|1|64000\ncpu|up|1/0/0/1|48|1|128000\nnone|up|0/0/0/0|0|0|0\n"

func TestAnswersOfBatchSystemsAreRead(t *testing.T) {
	for _, c := range []struct {
		name, text, system string
		want               []figures
	}{
		{"Slurm", slurmAnswer, "Slurm 22.05.8", []figures{{"cpu", true, "up", [3]int{10, 5, 4}, -1, -1},
			{"gpu", false, "inact", [3]int{2, 0, 0}, -1, -1}, {"none", true, "up", [3]int{}, -1, -1}}},
		{"Slurm without partitions", "#muster slurm\nslurm 23.11.4\n", "Slurm 23.11.4", nil},
		{"PBS Pro", recorded(t, "pbspro.txt"), "PBS 19.1.2",
			[]figures{{"workq", true, "up", [3]int{4, 1, 2}, 9, 30}, {"special", false, "stopped", [3]int{1, 1, 0}, 0, 0}}},
		{"Torque", recorded(t, "torque.txt"), "Torque 6.1.2", []figures{{"batch", true, "up", [3]int{2, 0, 1}, 0, 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			system, queues, err := parse(c.text)
			if err != nil || system != c.system || !reflect.DeepEqual(figuresOf(queues), c.want) {
				t.Errorf("%s %+v %v", system, figuresOf(queues), err)
			}
		})
	}
}

func TestAQueueIsAsLargeAsItsSmallestNode(t *testing.T) {
	_, queues, err := parse(slurmAnswer)
	var sizes [][2]int
	for _, q := range queues {
		sizes = append(sizes, [2]int{q.Cores, q.MemoryMiB})
	}
	if want := [][2]int{{32, 128000}, {32, 64000}, {0, 0}}; err != nil || !reflect.DeepEqual(sizes, want) {
		t.Errorf("%v %v, not %v", err, sizes, want)
	}
}

func TestNothingThatIsNotUnderstoodIsTaken(t *testing.T) {
	pbs := recorded(t, "pbspro.txt")
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "", "does not run commands"},
		{"a shell that speaks", "This account is currently not available.\n", "does not run commands"},
		{"no batch system", "#muster none\n", "neither sinfo nor qstat"},
		{"another program", "#muster slurm\nsinfo: unrecognized option\n", "not a version of Slurm"},
		{"another line", "#muster slurm\nslurm 22.05.8\nPARTITION AVAIL NODES\n", "not a line of sinfo"},
		{"a field more", "#muster slurm\nslurm 22.05.8\ncpu|up|1/0/0/1|1|1|1|x\n", "not a line of sinfo"},
		{"a count less", "#muster slurm\nslurm 22.05.8\ncpu|up|1/0/1|1|1|1\n", "not counts"},
		{"a sum that is wrong", "#muster slurm\nslurm 22.05.8\ncpu|up|1/0/0/2|1|1|1\n", "do not add up"},
		{"a count that is none", "#muster slurm\nslurm 22.05.8\ncpu|up|-1/1/0/0|1|1|1\n", "not a count"},
		{"a short count", "#muster slurm\nslurm 22.05.8\ncpu|up|1K/0/0/1K|1|1|1\n", "not a count"},
		{"a size that is none", "#muster slurm\nslurm 22.05.8\ncpu|up|1/0/0/1|many|1|1\n", "not a count"},
		{"a name that moves the cursor", "#muster slurm\nslurm 22.05.8\n\x1b[2J|up|0/0/0/0|1|1|1\n", "not a line of sinfo"},
		{"a queue without a state", strings.Replace(pbs, "    enabled = True\n", "", 1), "not a queue of qstat"},
		{"a queue twice", strings.Replace(pbs, "Queue: special", "Queue: workq", 1), "lists queue workq twice"},
		{"jobs that are no number", strings.Replace(pbs, "Queued:27", "Queued:many", 1), "not a count"},
		{"a node without a state", strings.Replace(pbs, "     state = state-unknown,down\n", "", 1), "has no state"},
		{"an attribute of nothing", strings.Replace(pbs, "Queue: workq\n", "", 1), "not a line of PBS"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, got, err := parse(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, not %q: %+v", err, c.want, got)
			}
		})
	}
}

// FuzzParse: whatever an external cluster says is read to the end, and what is taken makes sense.
func FuzzParse(f *testing.F) {
	f.Add(slurmAnswer)
	f.Add(recorded(f, "pbspro.txt"))
	f.Add(recorded(f, "torque.txt"))
	f.Add("#muster none\n")
	f.Add("#muster pbs\nVersion: ")
	f.Add("#muster slurm\nslurm 1\n|||\n")
	f.Add("#muster pbs\n#muster queues\nQueue: q\n\t= \n #muster nodes\n")
	f.Fuzz(func(t *testing.T, text string) {
		system, queues, err := parse(text)
		if err != nil {
			return
		}
		if len(system) > 40 || system != clean(system, 40) {
			t.Errorf("a system called %q", system)
		}
		names := map[string]bool{}
		for _, q := range queues {
			if names[q.Name] || !queueName.MatchString(q.Name) || q.Free < 0 || q.Used < 0 || q.Free+q.Used > q.Nodes ||
				!word(q.State) {
				t.Errorf("%+v", q)
			}
			names[q.Name] = true
		}
	})
}

// FuzzReadJob: whatever a login host says of a job, something is known of it, or it is an error; no text of it is raw.
func FuzzReadJob(f *testing.F) {
	f.Add("Welcome\n\n@m job 7\n\n@m began 1.5\n\n@m nodes c1 c2\n\n@m exit 3 2.5\n\n@m ended failed\n\n@m output\n@m runs\n")
	f.Add("\n@m waits \x1b[2J\n")
	f.Add("\n@m silent slurm_load_jobs error\n")
	f.Add("\n@m ended well\n")
	f.Add("\n@m refused x\n\n@m runs\n")
	f.Add("\n@m exit -1 1e999\n\n@m runs")
	f.Fuzz(func(t *testing.T, text string) {
		said, output, err := readJob("m", text)
		if err != nil {
			return
		}
		if said.Stage == "" || (said.Stage == protocol.TaskEnded) != (said.Outcome != "") || len(output) > len(text) {
			t.Errorf("%+v", said)
		}
		for _, said := range append(said.Nodes, said.Text, said.Job) {
			if said != printable.Line(said) {
				t.Errorf("%q", said)
			}
		}
	})
}
