package schedulertest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/protocol"
)

// Users are those whose jobs a Runner's contract starts: alice and mallory. Who is not root can be neither.
type Users struct {
	Homes string // where their home directories are made
	Seen  string // where programs find these; "": there
	// Run runs a program to its end as a user of this number, and returns what it wrote to standard output.
	Run func(ctx context.Context, user int, argv ...string) ([]byte, error)
}

// RunnerContract is what every Runner keeps. It takes as long as the scheduler does to start some jobs.
func RunnerContract(t *testing.T, runner scheduler.Runner, users Users) {
	users.Seen = cmp.Or(users.Seen, users.Homes)
	for name, number := range numbers() {
		home := filepath.Join(users.Homes, name)
		if err := errors.Join(os.Chmod(users.Homes, 0o755), os.Mkdir(home, 0o755), os.Chown(home, number, number)); err != nil {
			t.Fatal(err)
		}
	}
	r := running{runner, users}
	t.Run("a job is found by its name and its user, and says how it ended", func(t *testing.T) {
		w := r.work(t, "alice", "fails", "echo out; echo err >&2; until [ -e go ]; do sleep 0.05; done; exit 3")
		if job, err := r.Find(t.Context(), w); job != "" || err != nil {
			t.Fatalf("before it was submitted there is job %q, %v", job, err)
		}
		theirs := r.submit(t, r.work(t, "mallory", "fails", "true"))
		if job, err := r.Find(t.Context(), w); job != "" || err != nil {
			t.Fatalf("another user's job %q has its name, %v", job, err)
		}
		job := r.submit(t, w)
		if found, err := r.Find(t.Context(), w); found != job || job == theirs || err != nil {
			t.Fatalf("job %q is found as %q, that of another is %q, %v", job, found, theirs, err)
		}
		if s := r.reaches(t, job, protocol.TaskRuns); len(s.Nodes) == 0 || s.Forgotten {
			t.Errorf("it runs, and says %+v", s)
		}
		r.ends(t, r.work(t, "alice", "go", "touch go"))
		if s := r.reaches(t, job, protocol.TaskEnded); s.Exit != 3 || s.TimedOut || s.Lost || s.Cancelled || len(s.Nodes) == 0 {
			t.Errorf("it has ended with %+v", s)
		}
		if text := r.wrote(t, w); text != "out\nerr\n" {
			t.Errorf("it has written %q", text)
		}
		if err := r.Cancel(t.Context(), job); err != nil {
			t.Errorf("it has ended, and cannot be cancelled: %v", err)
		}
		if s := r.ends(t, r.work(t, "mallory", "rest", "true")); s.Exit != 0 {
			t.Errorf("a job that is well ends with %+v", s)
		}
	})
	t.Run("a job that a signal ends has its number", func(t *testing.T) {
		if s := r.ends(t, r.work(t, "alice", "crashes", "kill -SEGV $$")); s.Exit != 128+11 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("a job that is cancelled ends with what it has started", func(t *testing.T) {
		w := r.work(t, "alice", "long", "flock held sleep 600 & echo begun; wait")
		job := r.submit(t, w)
		until(t, "it has begun", func() bool { return r.wrote(t, w) == "begun\n" })
		for range 2 {
			if err := r.Cancel(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		if s := r.reaches(t, job, protocol.TaskEnded); s.Exit == 0 && !s.Cancelled && !s.Forgotten {
			t.Errorf("it has ended with %+v", s)
		}
		if s := r.ends(t, r.work(t, "alice", "next", "flock -w 60 held true")); s.Exit != 0 {
			t.Errorf("what it has started goes on: %+v", s)
		}
	})
	t.Run("a job that was never there is forgotten", func(t *testing.T) {
		if s, err := r.Follow(t.Context(), "999999"); err != nil || !s.Forgotten {
			t.Errorf("%+v, %v", s, err)
		}
		if err := r.Cancel(t.Context(), "999999"); err != nil {
			t.Error(err)
		}
	})
}

// numbers are those of the users' accounts.
func numbers() map[string]int { return map[string]int{"alice": 5000, "mallory": 5001} }

type running struct {
	scheduler.Runner
	users Users
}

// work runs a script as a user, at home.
func (r running) work(t *testing.T, user, name, script string) scheduler.Work {
	t.Helper()
	home := filepath.Join(r.users.Seen, user)
	text := fmt.Appendf(nil, "#!/bin/sh\ncd %s\n%s\n", home, script)
	if err := os.WriteFile(filepath.Join(r.users.Homes, user, name+".sh"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	start := func(argv ...string) []string {
		return append([]string{"env", "-i", "-C", home, "PATH=/usr/local/bin:/usr/bin:/bin"}, argv...)
	}
	return scheduler.Work{
		Task: protocol.Task{Account: user, Limit: time.Minute}, Name: name,
		Script: filepath.Join(home, name+".sh"), Output: filepath.Join(home, name+".out"),
		As: func(ctx context.Context, argv ...string) ([]byte, error) {
			return r.users.Run(ctx, numbers()[user], start(argv...)...)
		},
		Start: func(argv ...string) ([]string, int) { return start(argv...), numbers()[user] },
	}
}

func (r running) wrote(t *testing.T, w scheduler.Work) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(r.users.Homes, strings.TrimPrefix(w.Output, r.users.Seen)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

func (r running) submit(t *testing.T, w scheduler.Work) string {
	t.Helper()
	job, err := r.Submit(t.Context(), w)
	if err != nil || job == "" || strings.TrimSpace(job) != job {
		t.Fatalf("submit %s: %q, %v", w.Name, job, err)
	}
	return job
}

// ends submits a work and waits for its job's end.
func (r running) ends(t *testing.T, w scheduler.Work) scheduler.JobState {
	t.Helper()
	return r.reaches(t, r.submit(t, w), protocol.TaskEnded)
}

// reaches waits until a job is so far.
func (r running) reaches(t *testing.T, job string, stage protocol.TaskStage) (s scheduler.JobState) {
	t.Helper()
	until(t, "job "+job+" "+string(stage), func() (is bool) {
		var err error
		if s, err = r.Follow(t.Context(), job); err != nil {
			t.Fatal(err)
		}
		return s.Stage == stage || s.Forgotten
	})
	return s
}

// until waits for what comes when others have worked.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen: %s", what)
		}
	}
}
