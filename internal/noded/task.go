package noded

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"muster/internal/drivers/scheduler"
	"muster/internal/kit/clock"
	"muster/internal/kit/words"
	"muster/internal/kit/wrap"
	"muster/internal/protocol"
)

// How often a task is looked at. To ask for its job costs a program of the scheduler's, which may run beside it.
const (
	taskFast  = 100 * time.Millisecond // it was news lately
	taskSlow  = time.Second
	taskRuns  = 5 * time.Second // its job, while that runs and has left no exit status
	taskSpell = 5 * time.Second // how long after news taskFast lasts
	// taskOrphaned is how long the script of a job that the scheduler does not know is waited for. A scheduler that died seconds
	// after a job began has not saved it; when its nodes register again it ends what it does not know there.
	taskOrphaned = time.Minute
)

// taskRecords is where a head notes what it has begun. Its cluster keeps them, as it does the scheduler's queue.
const taskRecords = protocol.StateOwn + "/tasks"

// taskDuty runs a head's tasks.
type taskDuty struct {
	disk      disk
	processes processes
	runner    scheduler.Runner // of users' tasks
	here      *starter         // of the system's, and of users' where there is no other
	reporter  *reporter
	console   *console
	boot      int64
	deliver   func(context.Context, protocol.TaskOutput) (protocol.TaskKept, error)
	home      <-chan struct{} // closed when /home is there
	group     *sync.WaitGroup

	mu    sync.Mutex
	tasks map[string]*taskRun
}

func (n *node) newTaskDuty(self string) *taskDuty {
	d := &taskDuty{
		disk: n.deps.disk, processes: n.deps.processes, reporter: n.reporter, console: n.console, boot: n.boot.Boot,
		deliver: n.controller.Output, home: n.homeThere, group: &n.tasks, tasks: map[string]*taskRun{},
	}
	d.here = newStarter(n.deps.processes, self)
	d.runner = d.here
	if r, ok := n.driver.(scheduler.Runner); ok {
		d.runner = r
	}
	return d
}

// taskRun is one task on its way.
type taskRun struct {
	duty   *taskDuty
	files  taskFiles
	runner scheduler.Runner

	forget context.CancelFunc
	wake   chan struct{} // holds a token when it is to be cancelled
	news   chan struct{} // holds a token when the scheduler has said something
	task   protocol.Task
	record taskRecord
	state  protocol.TaskState
	sent   int64 // bytes of output
	failed string
}

// taskRecord is what has to be known of a task after the head has rebooted. It is written before the task is submitted: an agent
// that finds one without a job does not know whether it was.
type taskRecord struct {
	Job   string               `json:"job,omitempty"`
	Began time.Time            `json:"began,omitzero"`
	Stop  protocol.TaskOutcome `json:"stop,omitempty"` // why it is being ended
	End   *protocol.TaskState  `json:"end,omitempty"`
}

// want hears which tasks there are to be. When it returns all of them are in the report.
func (d *taskDuty) want(ctx context.Context, config *protocol.Config) {
	d.mu.Lock()
	defer d.mu.Unlock()
	wanted := map[string]bool{}
	for _, t := range config.Tasks {
		wanted[t.ID] = true
		if run := d.tasks[t.ID]; run != nil {
			if t.Cancel {
				clock.Wake(run.wake)
			}
			continue
		}
		d.take(ctx, config, t)
	}
	for id, run := range d.tasks {
		if !wanted[id] {
			run.forget()
			delete(d.tasks, id)
			d.reporter.setTask(id, nil)
		}
	}
	d.sweep(wanted)
}

// take begins to look after a task.
func (d *taskDuty) take(ctx context.Context, config *protocol.Config, t protocol.Task) {
	ctx, cancel := context.WithCancel(ctx)
	run := &taskRun{duty: d, runner: d.runner, forget: cancel, wake: make(chan struct{}, 1), news: make(chan struct{}, 1),
		task:  t,
		state: protocol.TaskState{ID: t.ID, Stage: protocol.TaskWaits}}
	run.files = taskFiles{disk: d.disk, processes: d.processes, id: t.ID}
	system := t.System && len(t.Command) > 0
	user := slices.IndexFunc(config.Users, func(u protocol.User) bool { return u.Name == t.Account })
	switch {
	case system:
		run.files, run.runner = run.files.ofSystem(), d.here
	case user >= 0:
		run.files = run.files.of(config.Users[user])
		if slices.Equal(t.On, []string{config.Self.Name}) { // no job, but a program of the user's here
			run.runner = d.here
		}
	}
	if t.Cancel {
		run.wake <- struct{}{}
	}
	d.tasks[t.ID] = run
	d.reporter.setTask(t.ID, &run.state)
	d.group.Go(func() {
		if user < 0 && !system {
			run.end(ctx, protocol.TaskFailed, nil, t.Account+" is no user of the cluster any more")
			<-ctx.Done()
			return
		}
		run.live(ctx)
		<-ctx.Done() // its end was heard, or the node ends
		if context.Cause(ctx) == context.Canceled && run.state.Stage == protocol.TaskEnded && d.over(t.ID) {
			cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
			defer cancel()
			if err := run.files.remove(cleaning); err != nil {
				d.console.printf("task %s: %v", t.ID, err)
			}
		}
	})
}

// over says that the task is not wanted any more.
func (d *taskDuty) over(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.tasks[id] == nil
}

// sweep takes away the records of tasks that are not wanted.
func (d *taskDuty) sweep(wanted map[string]bool) {
	entries, err := os.ReadDir(d.disk.path(taskRecords))
	if err != nil {
		return // there are none
	}
	for _, e := range entries {
		if id, ours := strings.CutSuffix(e.Name(), ".json"); ours && !wanted[id] {
			_ = os.Remove(filepath.Join(d.disk.path(taskRecords), e.Name())) // the next configuration tries again
		}
	}
}

// look makes all tasks be looked at soon: something happened to jobs.
func (d *taskDuty) look() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, run := range d.tasks {
		clock.Wake(run.news)
	}
}

// live brings the task to its end.
func (r *taskRun) live(ctx context.Context) {
	select {
	case <-r.duty.home:
	case <-ctx.Done():
		return
	}
	noted, err := r.recall()
	switch {
	case err != nil:
		r.end(ctx, protocol.TaskLost, nil, "what the head noted of it can't be read")
		return
	case r.record.End != nil:
		r.state = *r.record.End
		r.tell()
		return
	case !noted && r.task.Boot != r.duty.boot:
		r.end(ctx, protocol.TaskLost, nil, "the head has rebooted and knows nothing of it")
		return
	case r.record.Job == "" && !r.begin(ctx, noted):
		return
	}
	r.follow(ctx)
}

// begin submits the task, unless it was submitted perhaps before the head rebooted. It says whether there is a job.
func (r *taskRun) begin(ctx context.Context, noted bool) bool {
	work := r.work()
	if !r.find(ctx, work) {
		return false
	}
	switch {
	case r.record.Job != "":
		return r.note(ctx)
	case noted:
		r.end(ctx, protocol.TaskLost, nil,
			"the head rebooted while it was being started, and the scheduler knows nothing of it")
		return false
	case len(r.wake) > 0:
		r.end(ctx, protocol.TaskCancelled, nil, "cancelled before it began")
		return false
	}
	if r.task.System && !r.files.has(r.task.Command[0]) {
		r.end(ctx, protocol.TaskOK, nil, "the image has no "+r.task.Command[0])
		return false
	}
	if err := r.files.prepare(ctx, r.task, r.runner.Launch()); err != nil {
		r.end(ctx, protocol.TaskFailed, nil, err.Error())
		return false
	}
	if !r.note(ctx) {
		return false
	}
	job, err := r.runner.Submit(ctx, work)
	switch {
	case ctx.Err() != nil:
		return false
	case errors.Is(err, scheduler.ErrRefusedJob):
		r.end(ctx, protocol.TaskFailed, nil, err.Error())
		return false
	case err != nil: // it may be in the queue, or come there yet
		r.duty.console.printf("task %s: %v", r.task.ID, err)
		if !r.find(ctx, work) {
			return false
		}
		if r.record.Job == "" {
			r.end(ctx, protocol.TaskLost, nil, "it may have been submitted: "+err.Error())
			return false
		}
		return r.note(ctx)
	}
	r.record.Job = job
	return r.note(ctx)
}

// find asks the scheduler for the task's job until it answers; false: ctx has ended.
func (r *taskRun) find(ctx context.Context, work scheduler.Work) bool {
	return r.insist(ctx, func() error {
		job, err := r.runner.Find(ctx, work)
		if err == nil {
			r.record.Job = job
		}
		return err
	})
}

// insist tries until it works; false: ctx has ended.
func (r *taskRun) insist(ctx context.Context, try func() error) bool {
	for {
		err := try()
		if err == nil {
			return ctx.Err() == nil
		}
		r.complain(err)
		if clock.Sleep(ctx, taskSlow) != nil {
			return false
		}
	}
}

func (r *taskRun) work() scheduler.Work {
	return scheduler.Work{
		Task: r.task, Name: "muster-" + r.task.ID, Script: r.files.path("job"), Output: r.files.path("output"), As: r.files.as,
		Start: func(argv ...string) ([]string, int) { return r.files.enter(argv...), r.files.user.UID },
	}
}

// follow watches the job until it has ended and all its output was delivered.
func (r *taskRun) follow(ctx context.Context) {
	r.state.Job = r.record.Job
	news, known, asked, over := time.Now(), time.Now(), time.Time{}, false
	for {
		if _, left := r.files.exit(); left && !over {
			news, over = time.Now(), true
		}
		steady := r.state.Stage == protocol.TaskRuns && !over && r.record.Stop == "" && time.Since(news) >= taskSpell
		if !steady || time.Since(asked) >= taskRuns {
			job, err := r.runner.Follow(ctx, r.record.Job)
			if ctx.Err() != nil {
				return
			}
			asked = time.Now()
			if err != nil {
				r.complain(err)
			} else if r.see(job) {
				news = time.Now()
			}
			if !job.Forgotten {
				known = time.Now()
			}
			if err == nil && (job.Stage == protocol.TaskEnded || job.Forgotten && r.silent(known)) {
				r.conclude(ctx, job)
				return
			}
		}
		if err := r.send(ctx, false); err != nil {
			r.complain(err)
		}
		r.stop(ctx)
		pause := taskSlow
		if time.Since(news) < taskSpell {
			pause = taskFast
		}
		select {
		case <-time.After(pause):
		case <-r.news:
		case <-r.wake:
			r.halt(ctx, protocol.TaskCancelled)
		case <-ctx.Done():
			return
		}
	}
}

// silent says that nothing more is to be heard of a job that the scheduler knew last at known: its script has left its exit
// status, or cannot be running any more. What the head itself started ended with it.
func (r *taskRun) silent(known time.Time) bool {
	_, left := r.files.exit()
	return left || r.record.Stop != "" || r.runner == r.duty.here || time.Since(known) > taskOrphaned
}

// see takes over how far the job is, and says whether that is news.
func (r *taskRun) see(job scheduler.JobState) bool {
	before := r.state
	if job.Stage == protocol.TaskRuns || job.Stage == protocol.TaskWaits {
		r.state.Stage = job.Stage
	}
	if len(job.Nodes) > 0 {
		r.state.Nodes = job.Nodes
	}
	r.state.Text = job.Text
	if job.Stage == protocol.TaskRuns && r.record.Began.IsZero() {
		r.record.Began = time.Now().UTC()
	}
	r.state.Began = r.record.Began
	if before.Stage == r.state.Stage && before.Text == r.state.Text && slices.Equal(before.Nodes, r.state.Nodes) {
		return false
	}
	if before.Stage != r.state.Stage {
		_ = r.save() // only when it began; a later note has it, too
	}
	r.tell()
	return true
}

// stop ends a task that has passed its limit.
func (r *taskRun) stop(ctx context.Context) {
	if !r.record.Began.IsZero() && time.Since(r.record.Began) > r.task.Limit {
		r.halt(ctx, protocol.TaskTimedOut)
	}
}

// halt ends the job; why is what it is said to have ended by. It may be called again.
func (r *taskRun) halt(ctx context.Context, why protocol.TaskOutcome) {
	if r.record.Stop == "" {
		r.record.Stop = why
		if err := r.save(); err != nil {
			r.complain(err)
		}
	}
	if err := r.runner.Cancel(ctx, r.record.Job); err != nil {
		r.complain(err)
		clock.Wake(r.wake) // once more
	}
}

// conclude says how the task has ended, once its output was delivered.
func (r *taskRun) conclude(ctx context.Context, job scheduler.JobState) {
	if !r.insist(ctx, func() error { return r.send(ctx, true) }) {
		return
	}
	exit, left := r.files.exit()
	if !job.Forgotten {
		exit = job.Exit
	}
	switch {
	case job.Forgotten && !left && r.record.Stop != "":
		r.end(ctx, r.record.Stop, nil, "")
	case job.Forgotten && !left:
		r.end(ctx, protocol.TaskLost, nil, "the scheduler knows no more of it, and it has left no exit status")
	case job.Lost:
		r.end(ctx, protocol.TaskLost, nil, job.Text)
	case exit == 0 && !job.TimedOut && !job.Cancelled:
		r.end(ctx, protocol.TaskOK, &exit, "")
	case r.record.Stop != "" && exit == 0: // it was ended before it began
		r.end(ctx, r.record.Stop, nil, "")
	case r.record.Stop != "":
		r.end(ctx, r.record.Stop, &exit, "")
	case job.TimedOut:
		r.end(ctx, protocol.TaskTimedOut, &exit, "")
	case job.Cancelled:
		r.end(ctx, protocol.TaskCancelled, nil, "somebody cancelled job "+r.record.Job+" in the cluster")
	default:
		r.end(ctx, protocol.TaskFailed, &exit, job.Text)
	}
}

// end notes and tells the task's end.
func (r *taskRun) end(ctx context.Context, outcome protocol.TaskOutcome, exit *int, text string) {
	if ctx.Err() != nil {
		return
	}
	s := r.state
	s.Stage, s.Outcome, s.Exit, s.Text, s.Ended = protocol.TaskEnded, outcome, exit, text, time.Now().UTC()
	if s.Job != "" {
		var wrong int
		if s.Samples, wrong = r.files.samples(); wrong > 0 && s.Text == "" {
			s.Text = words.Count(wrong, "line") + " of its samples make no sense, or were too many"
		}
	}
	r.state, r.record.End = s, &s
	if err := r.save(); err != nil {
		r.complain(err)
	}
	r.duty.console.printf("task %s of %s: %s %s", r.task.ID, r.task.Account, outcome, text)
	r.tell()
}

// send delivers the output that there is more: one piece, or all.
func (r *taskRun) send(ctx context.Context, all bool) error {
	for {
		piece, size, err := r.files.output(r.sent)
		if err != nil { // the user has put something else there
			r.failed = err.Error()
			return nil
		}
		r.state.Bytes = max(r.state.Bytes, size)
		room := protocol.MostTaskOutput - r.sent
		if len(piece) == 0 || room <= 0 || r.sent == protocol.NoTask {
			return nil
		}
		kept, err := r.duty.deliver(ctx,
			protocol.TaskOutput{ID: r.task.ID, Start: r.sent, Bytes: piece[:min(int64(len(piece)), room)]})
		if err != nil || kept.Bytes == protocol.NoTask {
			return err
		}
		if kept.Bytes == r.sent { // it does not get further: the task has ended there
			return nil
		}
		if r.sent = kept.Bytes; !all {
			return nil
		}
	}
}

// tell has the report say how far the task is.
func (r *taskRun) tell() {
	state := r.state
	r.duty.reporter.setTask(r.task.ID, &state)
}

// complain says once what goes wrong.
func (r *taskRun) complain(err error) {
	if text := err.Error(); text != r.failed {
		r.failed = text
		r.duty.console.printf("task %s: %s", r.task.ID, text)
	}
}

// note writes the record, and tries again until it is written: without it the task could begin twice.
func (r *taskRun) note(ctx context.Context) bool {
	return r.insist(ctx, r.save)
}

func (r *taskRun) save() error {
	text, err := json.Marshal(r.record)
	if err == nil {
		err = r.duty.disk.directory(taskRecords, 0o700, nil)
	}
	if err == nil {
		_, err = r.duty.disk.write(r.recordPath(), text, 0o600, nil)
	}
	return wrap.Errorf(err, "note how far it is")
}

// recall reads the record that an earlier boot has left.
func (r *taskRun) recall() (there bool, err error) {
	text, err := r.duty.disk.read(r.recordPath())
	if err != nil || text == "" {
		return false, err
	}
	return true, json.Unmarshal([]byte(text), &r.record)
}

func (r *taskRun) recordPath() string {
	return filepath.Join(taskRecords, filepath.Base(r.task.ID)+".json")
}
