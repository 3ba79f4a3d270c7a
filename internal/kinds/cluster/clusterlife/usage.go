package clusterlife

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"muster/internal/core"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/meter"
	"muster/internal/kit/clock"
	"muster/internal/price"
)

// warnAt is how many percent of a limit are used when its users are warned.
const warnAt = 80

// limitLooks is how long limits go unwatched while none is near: another node may come at any time.
const limitLooks = 2 * time.Second

// WatchLimits holds clusters and projects to their budgets until ctx ends: it tells when 80 and 100 % are used, and pauses
// what was to be paused. It looks again at the very moment at which the next of these is reached at this rate. Any number of
// controllers may do so at once. Before all that, it gives what runs the prices that the site has now.
func (w Handlers) WatchLimits(ctx context.Context, log *slog.Logger) {
	priced := false
	for ctx.Err() == nil {
		if !priced {
			if err := w.reprice(ctx); err == nil {
				priced = true
			} else if ctx.Err() == nil {
				log.Error("cannot give the new prices to what runs", "error", err)
			}
		}
		next, err := w.watchLimits(ctx)
		if err != nil && ctx.Err() == nil {
			log.Error("cannot watch budgets", "error", err)
		}
		_ = clock.Sleep(ctx, next)
	}
}

// watched is a limit with what it holds.
type watched struct {
	price.Limit
	project  string
	clusters []cluster.Cluster // that pause at it
}

func (w Handlers) watchLimits(ctx context.Context) (time.Duration, error) {
	next := limitLooks
	var all []watched
	err := w.DB.View(ctx, func(tx *core.Tx) error {
		all = nil
		clusters, err := cluster.List(ctx, tx, "")
		if err != nil {
			return err
		}
		for _, c := range clusters {
			limits, err := w.Admission.ClusterLimits(ctx, tx, c.ID, c.Spec)
			if err != nil {
				return err
			}
			for _, l := range limits {
				all = append(all, watched{l, "", []cluster.Cluster{c}})
			}
		}
		for project := range w.Catalogue.Projects {
			limits, err := w.Admission.ProjectLimits(ctx, tx, project)
			if err != nil {
				return err
			}
			of := slices.DeleteFunc(slices.Clone(clusters), func(c cluster.Cluster) bool { return c.Project != project })
			for _, l := range limits {
				all = append(all, watched{l, project, of})
			}
		}
		return nil
	})
	if err != nil {
		return next, err
	}
	for _, l := range all {
		if l.Runs && !l.Reached() {
			next = max(min(next, untilNews(l.Limit)+time.Millisecond), 10*time.Millisecond)
		}
		if err := w.tell(ctx, l); err != nil {
			return next, err
		}
		if l.Reached() && l.Pauses {
			for _, c := range l.clusters {
				if err := w.pauseFor(ctx, l, c); err != nil {
					return next, err
				}
			}
		}
	}
	return next, nil
}

// untilNews is how long it lasts at this rate until the next mark of a limit is passed. As percents are rounded down, the
// mark of 80 may be passed for a hundredth of the limit when it is seen.
func untilNews(l price.Limit) time.Duration {
	if l.Percent >= warnAt {
		return l.Left
	}
	return time.Duration(float64(l.Left) * float64(warnAt-l.Percent) / float64(100-l.Percent))
}

// tell says, once each, that a limit is nearly used up and that it is.
func (w Handlers) tell(ctx context.Context, l watched) error {
	level := 0
	switch {
	case l.Reached():
		level = 100
	case l.Percent >= warnAt:
		level = warnAt
	}
	event := core.Event{Type: "project.limit", Project: l.project}
	who, subject := "project "+l.project, l.project
	if l.project == "" {
		c := l.clusters[0]
		event = core.Event{Type: "cluster.limit", Project: c.Project, ClusterID: c.ID, Cluster: c.Name}
		who, subject = "it", c.ID
	}
	return w.DB.Quietly(ctx, func(tx *core.Tx) error {
		news, err := meter.Tell(ctx, tx, subject, l.What, level)
		if err != nil || !news {
			return err
		}
		event.Text = fmt.Sprintf("%s has used its %s: %s", who, l.What, l)
		switch {
		case level == warnAt && l.Runs:
			event.Text = fmt.Sprintf("%s has used most of its %s: %s; at this rate the rest lasts for %s", who, l.What, l,
				l.Left.Round(time.Second))
		case level == warnAt:
			event.Text = fmt.Sprintf("%s has used most of its %s: %s", who, l.What, l)
		case !l.Pauses:
			event.Text += "; nothing is stopped, since on_limit is warn"
		}
		tx.Log(event)
		return nil
	})
}

// pauseFor pauses a cluster because of a limit, unless it is paused or going already.
func (w Handlers) pauseFor(ctx context.Context, l watched, c cluster.Cluster) error {
	if c.Desired != core.Present {
		return nil
	}
	return w.DB.Update(ctx, func(tx *core.Tx) error {
		if err := cluster.Lock(ctx, tx, c.ID); err != nil {
			return err
		}
		fresh, err := cluster.Get(ctx, tx, c.ID)
		if err != nil || fresh.Desired != core.Present {
			return err
		}
		if refused, err := w.Admission.Unpausable(ctx, tx, fresh); err != nil {
			return err
		} else if refused != nil {
			return w.cannotPause(ctx, tx, l, c, refused)
		}
		text := fmt.Sprintf("pause: it has used its %s: %s; to go on, raise budget.limit in its file, `muster apply` it, then "+
			"`muster resume %s`", l.What, l, c.Name)
		if l.project != "" {
			text = fmt.Sprintf("pause: project %s has used its %s: %s; when the limit is raised or the next month begins, "+
				"`muster resume %s` goes on", l.project, l.What, l, c.Name)
		}
		tx.Log(core.Event{Type: "cluster.requested", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: text})
		return cluster.WantPaused(ctx, tx, c.ID)
	})
}

// cannotPause says once that a limit has no effect on a cluster: to lose its state would be worse than its price.
func (w Handlers) cannotPause(ctx context.Context, tx *core.Tx, l watched, c cluster.Cluster, why error) error {
	news, err := meter.Tell(ctx, tx, c.ID, l.What+": cannot pause", 100)
	if news {
		text := fmt.Sprintf("runs on beyond its limit (%s: %s) because it cannot be paused: %s", l.What, l, why)
		tx.Log(core.Event{Type: "cluster.limit", Project: c.Project, ClusterID: c.ID, Cluster: c.Name, Text: text})
	}
	return err
}

// reprice gives everything that runs the terms of today's site file.
func (w Handlers) reprice(ctx context.Context) error {
	var rows []price.Usage
	terms := map[string]price.Terms{} // subject → new ones
	err := w.DB.View(ctx, func(tx *core.Tx) (err error) {
		clear(terms)
		if rows, err = meter.Rows(ctx, tx, meter.Of{Open: true}); err != nil {
			return err
		}
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		for _, r := range rows {
			now := w.Catalogue.HomeTerms()
			if r.Kind == price.Node {
				i := slices.IndexFunc(machines, func(m machine.Machine) bool { return m.Holder == r.Subject })
				if _, known := w.Catalogue.Find(r.Class); i < 0 || !known {
					continue // a class that was removed keeps its price for those who are in it
				}
				now = w.Catalogue.Terms(r.Class, machines[i].Machine)
			}
			if now.Rate != r.Rate || !slices.Equal(now.Charged, r.Charged) || now.Cores != r.Cores || now.CPUs != r.CPUs ||
				now.GPUs != r.GPUs {
				terms[r.Subject] = now
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	before, after, of := map[string]price.Sum{}, map[string]price.Sum{}, map[string]price.Usage{}
	for _, r := range rows {
		if r.Kind == price.Node && before[r.ClusterID] == nil {
			before[r.ClusterID], after[r.ClusterID], of[r.ClusterID] = price.Sum{}, price.Sum{}, r
		}
		now, changed := terms[r.Subject]
		if !changed {
			now = r.Terms
		} else if err := w.DB.Update(ctx, func(tx *core.Tx) error {
			return meter.Reprice(ctx, tx, r.Subject, now, r.Quantity)
		}); err != nil {
			return err
		}
		if r.Kind == price.Node {
			before[r.ClusterID].Add(r.Rate)
			after[r.ClusterID].Add(now.Rate)
		}
	}
	return w.DB.Update(ctx, func(tx *core.Tx) error {
		for id, r := range of {
			if was, is := before[id].String(), after[id].String(); was != is {
				text := fmt.Sprintf("its nodes cost %s per hour from now on, %s before: the site has changed its prices",
					orNothing(is), orNothing(was))
				tx.Log(core.Event{Type: "cluster.price", Project: r.Project, ClusterID: id, Cluster: r.Cluster, Text: text})
			}
		}
		return nil
	})
}

func orNothing(money string) string {
	if money == "" {
		return "nothing"
	}
	return money
}

// longestMeasure bounds one look at what a cluster keeps. What cannot be measured in that counts as it was measured last.
const longestMeasure = 30 * time.Second

// MeasureHomes meters what clusters keep on disk, every so often until ctx ends.
func (w Handlers) MeasureHomes(ctx context.Context, every time.Duration, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := w.measureHomes(ctx, log); err != nil && ctx.Err() == nil {
			log.Error("cannot measure the storage of clusters", "error", err)
		}
		_ = clock.Sleep(ctx, every)
	}
}

func (w Handlers) measureHomes(ctx context.Context, log *slog.Logger) error {
	there, err := w.Shared.ListShared(ctx)
	if err != nil {
		return err
	}
	for _, id := range there {
		limited, cancel := context.WithTimeout(ctx, longestMeasure)
		bytes, err := w.Snapshots.Size(limited, id)
		cancel()
		if err != nil {
			log.Warn("cannot measure the storage of a cluster; its last measurement is used", "cluster", id, "error", err)
			continue
		}
		const mib = 1 << 20
		if err := w.meterHome(ctx, id, (bytes+mib-1)/mib); err != nil {
			return err
		}
	}
	return nil
}

func (w Handlers) meterHome(ctx context.Context, cluster string, held int64) error {
	var home price.Usage
	err := w.DB.View(ctx, func(tx *core.Tx) error {
		rows, err := meter.Rows(ctx, tx, meter.Of{Cluster: cluster, Open: true})
		for _, r := range rows {
			if r.Kind == price.Home {
				home = r
			}
		}
		return err
	})
	if err != nil || home.Subject == "" || home.Quantity == held {
		return err
	}
	return w.DB.Quietly(ctx, func(tx *core.Tx) error { return meter.Reprice(ctx, tx, cluster, home.Terms, held) })
}
