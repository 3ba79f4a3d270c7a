package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds"
	"muster/internal/kinds/host"
	"muster/internal/kit/duration"
	"muster/internal/spec"
)

// alarms are those that stand, the ones first that are not acknowledged, and the numbers that most of them are seen from.
func (a *API) alarms(ctx context.Context) (all []apiv1.Alarm, c kinds.Census, err error) {
	var known map[string]host.Acknowledgement
	err = a.DB.View(ctx, func(tx *core.Tx) error {
		lost, err := host.Alarms(ctx, tx)
		if err != nil {
			return err
		}
		all = each(lost, func(a host.Alarm) apiv1.Alarm {
			return apiv1.Alarm{ID: a.Place, Name: "nodes-lost", Text: a.Text, Since: instant(a.RaisedAt)}
		})
		if known, err = host.Acknowledgements(ctx, tx); err == nil {
			c, err = kinds.Count(ctx, tx)
		}
		return err
	})
	if err != nil {
		return nil, c, err
	}
	all = append(all, counted(c, a.DB.Living())...)
	if a.About.Alarms != nil {
		all = append(all, a.About.Alarms(ctx)...)
	}
	for i := range all {
		alarm := &all[i]
		if of := alarm.ID; of == "" {
			alarm.ID = alarm.Name
		} else {
			alarm.ID = alarm.Name + ":" + of
		}
		k, is := known[alarm.ID]
		if is && (alarm.Since == nil || !alarm.Since.After(k.Seen)) {
			alarm.Acknowledged = acknowledgementView(k)
		}
	}
	slices.SortFunc(all, func(a, b apiv1.Alarm) int {
		if new, other := a.Acknowledged == nil, b.Acknowledged == nil; new != other {
			return map[bool]int{true: -1, false: 1}[new]
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return all, c, nil
}

func acknowledgementView(k host.Acknowledgement) *apiv1.Acknowledgement {
	return &apiv1.Acknowledgement{By: k.Person, At: k.At, Until: k.Until, Note: k.Note}
}

// lagAlarm is how long due work may wait before it is told: the controllers are too few, or hang.
const lagAlarm = 5 * time.Second

// counted are alarms that can be seen from the numbers.
func counted(c kinds.Census, of []core.Definition) []apiv1.Alarm {
	var all []apiv1.Alarm
	add := func(name string, there kinds.Told, one, more, look string) {
		alarm := apiv1.Alarm{Name: name, Text: fmt.Sprintf("%d %s; %s", there.N, more, look), Since: instant(there.Newest)}
		if there.N == 1 {
			alarm.Text = "1 " + one + "; " + look
		}
		if there.N > 0 {
			all = append(all, alarm)
		}
	}
	for _, k := range of {
		for _, p := range k.Failures {
			if a := k.Alarm; a != nil {
				add(fmt.Sprintf("%ss-%s", k.Kind, p), kinds.Told{N: c.Phases[k.Kind][p], Newest: c.Newest[k.Kind][p]}, a.One,
					a.More, a.Look)
			}
		}
	}
	add("nodes-silent", c.Heard.Silent, "ready node says nothing", "ready nodes say nothing",
		"`muster describe CLUSTER` shows when each was last seen")
	add("machines-unknown", c.Unknown, "unknown machine asked to boot", "unknown machines asked to boot",
		"`muster machines unknown` shows them")
	add("benchmarks-worse", c.Worse, "quantity is worse than it was", "quantities are worse than they were",
		"`muster bench changes` shows them")
	for kind, q := range c.Queues {
		if q.Lag > lagAlarm {
			all = append(all, apiv1.Alarm{ID: string(kind), Name: "engine-lag", Since: instant(q.Since),
				Text: fmt.Sprintf("work on %ss is %.0f s late; the controllers are busy, or hang", kind, q.Lag.Seconds())})
		}
	}
	return all
}

// How long an alarm is acknowledged, unless somebody says for how long, and at most.
const (
	usualAcknowledgement   = 24 * time.Hour
	longestAcknowledgement = 30 * 24 * time.Hour
)

func (a *API) acknowledgeAlarm(ctx context.Context, in *apiv1.AcknowledgeAlarmInput) (*output[apiv1.Alarm], error) {
	life := usualAcknowledgement
	if in.Body.For != "" {
		var err error
		if life, err = duration.Within(in.Body.For, 0, longestAcknowledgement); err != nil {
			return nil, badDuration("for", err)
		}
	}
	all, _, err := a.alarms(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(alarm apiv1.Alarm) bool { return alarm.ID == in.Alarm })
	if i < 0 {
		return nil, notFound(fmt.Sprintf("no alarm %q stands", in.Alarm), "`muster alarms list` shows those that do")
	}
	alarm := all[i]
	if seen := in.Body.Since; life > 0 && seen != nil && alarm.Since != nil && alarm.Since.After(*seen) {
		return nil, conflict("the alarm tells of something newer than "+spec.When(*seen)+": "+alarm.Text, "look at that first")
	}
	return updated(ctx, a, func(tx *core.Tx, out *apiv1.Alarm) error {
		*out = alarm
		out.Acknowledged = nil
		if life == 0 {
			taken, err := host.TakeBack(ctx, tx, alarm.ID)
			if taken {
				tx.Log(core.Event{Type: "site.alarm",
					Text: fmt.Sprintf("%s is not acknowledged any more, by %s", alarm.ID, identityOf(ctx))})
			}
			return err
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		k := host.Acknowledgement{Alarm: alarm.ID, Person: identityOf(ctx), Note: in.Body.Note, At: now, Seen: now,
			Until: now.Add(life)}
		if alarm.Since != nil {
			k.Seen = *alarm.Since // what has come since then has not been looked at
		}
		out.Acknowledged = acknowledgementView(k)
		said := fmt.Sprintf("%s is known to %s", k.Alarm, k.Person)
		if k.Note != "" {
			said += ": " + k.Note
		}
		tx.Log(core.Event{Type: "site.alarm", Text: said})
		return host.Acknowledge(ctx, tx, k)
	})
}
