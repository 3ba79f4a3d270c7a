package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/duration"
)

// timing is the pace of repetitions and waits. Events say when to look; looking anyway covers what no event tells, and a
// stream that is lost.
type timing struct {
	repeats []time.Duration // before each repetition of a request
	back    time.Duration   // before coming back to a lost stream
	look    time.Duration   // between looks while there are no events
	gap     time.Duration   // between looks for nodes that are shown: their events come in bursts
	draw    time.Duration
	quiet   time.Duration // without news, after which the user is told what is waited for
}

func usualTiming() timing {
	return timing{
		repeats: []time.Duration{200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond},
		back:    250 * time.Millisecond, look: time.Second, gap: 100 * time.Millisecond, draw: 100 * time.Millisecond,
		quiet: 10 * time.Second,
	}
}

// waiting is what the user said about waiting.
type waiting struct {
	wait    bool
	timeout time.Duration
}

// waitFlags gives a command --wait and --timeout.
func waitFlags(c *cobra.Command, until string) *waiting {
	w := &waiting{}
	c.Flags().BoolVar(&w.wait, "wait", false, "wait until "+until+", and show the progress")
	c.Flags().Var((*duration.Value)(&w.timeout), "timeout",
		"with --wait: give up waiting after this `TIME`, such as 90s or 10m; the operation goes on (default: no limit)")
	c.PreRunE = func(*cobra.Command, []string) error { // before anything is done
		if w.timeout > 0 && !w.wait {
			return usage("--timeout needs --wait")
		}
		return nil
	}
	return w
}

// limit is ctx that also ends with the timeout, whose cause then is errTimeout.
func (w *waiting) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	if w.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, w.timeout, errTimeout)
}

var errTimeout = errors.New("timeout")

// tracking is one operation on its way.
type tracking struct {
	app     *app
	op      apiv1.Operation
	name    string
	start   time.Time // of the request
	show    progress
	cluster apiv1.Cluster // as last seen
	raw     []byte
	said    time.Time // when the user last read something new
	looked  time.Time // when the cluster was last read
}

// await shows the progress of an operation until it is done.
func (a *app) await(ctx context.Context, w *waiting, op apiv1.Operation, cluster apiv1.Cluster,
	start time.Time) (*tracking, error) {
	ctx, cancel := w.limit(ctx)
	defer cancel()
	t := &tracking{app: a, op: op, name: cluster.Name, start: start, show: a.newProgress(cluster.Name, start),
		cluster: cluster, said: time.Now()}
	err := t.run(ctx)
	t.show.end()
	if ctx.Err() != nil && err != nil {
		return t, t.left(ctx, w)
	}
	return t, err
}

// left says how things stood when the user stopped waiting.
func (t *tracking) left(ctx context.Context, w *waiting) error {
	stands := fmt.Sprintf("cluster %s is %s", t.name, standing(t.cluster))
	ref := t.name
	if t.op.Kind == "delete" {
		ref = t.op.Cluster // soon no cluster has the name
	}
	look := fmt.Sprintf("the operation goes on; `muster describe %s` and `muster events -w %s` show it", ref, ref)
	if errors.Is(context.Cause(ctx), errTimeout) {
		return fmt.Errorf("not done after %s: %s (%s)", w.timeout, stands, look)
	}
	t.app.say("%s", look)
	return silent{context.Cause(ctx)}
}

func (t *tracking) run(ctx context.Context) error {
	events := make(chan apiv1.Event, 1000)
	ended := make(chan error, 1)
	watch := &stream{app: t.app, of: whose{cluster: t.op.Cluster}, after: t.op.EventsAfter, pause: t.app.timing.back}
	follow, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		ended <- watch.run(follow, func(e apiv1.Event, _ []byte) error {
			select {
			case events <- e:
				return nil
			case <-follow.Done():
				return follow.Err()
			}
		})
	}()
	look, draw := time.NewTicker(t.app.timing.look), time.NewTicker(t.app.timing.draw)
	defer look.Stop()
	defer draw.Stop()
	for {
		done, err := t.look(ctx)
		if err != nil || done {
			stop()
			<-ended
			t.drain(events)
			t.catchUp(ctx, watch)
			return err
		}
		if err := t.next(ctx, events, ended, look.C, draw.C); err != nil {
			return err
		}
	}
}

// next returns when it is time to look again.
func (t *tracking) next(ctx context.Context, events <-chan apiv1.Event, ended <-chan error, look, draw <-chan time.Time) error {
	var soon <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			return err
		case e := <-events:
			t.tell(e)
			switch {
			case strings.HasPrefix(e.Type, "cluster."): // which all operations end with
				t.drain(events)
				return nil
			case t.show.nodes() && soon == nil:
				soon = time.After(t.app.timing.gap - time.Since(t.looked))
			}
		case <-soon:
			t.drain(events)
			return nil
		case <-look:
			return nil
		case <-draw:
			t.show.draw()
		}
	}
}

func (t *tracking) drain(events <-chan apiv1.Event) {
	for {
		select {
		case e := <-events:
			t.tell(e)
		default:
			return
		}
	}
}

// catchUp tells the events that led to where the cluster is and that the stream had no time to bring. It is no matter if
// they cannot be had: how the operation ended is known.
func (t *tracking) catchUp(ctx context.Context, watch *stream) {
	events, err := apiv1.All(ctx, t.app, apiv1.ListClusterEvents, clusterEvents(watch.of.cluster, watch.after))
	if err != nil {
		return
	}
	for _, e := range events {
		t.tell(e)
	}
}

func (t *tracking) tell(e apiv1.Event) {
	t.show.event(e)
	t.said = time.Now()
}

// look reads the cluster and says whether the operation is done. A controller that does not answer is waited for.
func (t *tracking) look(ctx context.Context) (done bool, err error) {
	t.looked = time.Now()
	var now apiv1.Cluster
	controller := t.app.client // which has been asked for the change
	raw, err := controller.once(ctx, apiv1.GetCluster.Ask(apiv1.ClusterRef{Cluster: t.op.Cluster}))
	if err == nil {
		err = decode(raw, &now)
	}
	var told *problemError
	switch {
	case errors.As(err, &told) && told.Status < 500:
		return false, err
	case err != nil:
		if t.quiet() {
			t.show.note(err.Error() + "; trying again")
		}
		return false, nil
	}
	t.cluster, t.raw = now, raw
	t.show.cluster(now)
	if t.quiet() {
		t.show.note("still " + standing(now))
	}
	return t.done()
}

// quiet says, at most every so often, that nothing has happened for so long.
func (t *tracking) quiet() bool {
	if time.Since(t.said) < t.app.timing.quiet {
		return false
	}
	t.said = time.Now()
	return true
}

func (t *tracking) done() (bool, error) {
	c := t.cluster
	ends := c.Phase == apiv1.Deleting || c.Phase == apiv1.Deleted
	switch {
	case t.op.Kind == "delete":
		return c.Phase == apiv1.Deleted, nil
	case ends:
		return false, fmt.Errorf("cluster %s is %s: it was deleted meanwhile", c.Name, standing(c))
	case t.op.Kind == "pause" && c.Desired == apiv1.Present:
		return false, fmt.Errorf("cluster %s is %s: it was resumed meanwhile", c.Name, standing(c))
	case t.op.Kind == "pause":
		return c.Phase == apiv1.Paused, nil
	case c.Desired == apiv1.ToPause && t.op.Kind == "resume":
		return false, fmt.Errorf("cluster %s is %s: it was paused meanwhile", c.Name, standing(c))
	case c.Phase == apiv1.Paused && c.Desired == apiv1.ToPause:
		return true, nil // a change of a paused cluster counts from its resume on
	}
	if c.Rollout != nil && c.Rollout.Stopped != "" {
		return false, fmt.Errorf("the rollout of cluster %s has stopped: %s (`muster rollout back %s` goes back, `muster "+
			"rollout resume %s` goes on)", c.Name, c.Rollout.Stopped, c.Name, c.Name)
	}
	return c.Phase == apiv1.Ready && c.Reached >= t.op.Generation, nil
}

// standing is a cluster's phase with all that is known of why.
func standing(c apiv1.Cluster) string {
	return string(c.Phase) + textIf(c.Reason != "", ": "+c.Reason) + textIf(c.Lacks != "", "; lacks: "+c.Lacks)
}
