package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/spec"
)

func (a *app) alarms() *cobra.Command {
	return group(&cobra.Command{
		Use:   "alarms",
		Short: "Show what a person should look at, and say that you do",
		Long: `An alarm tells of something that a person should look at, and stands until that is gone. If you say that you know of one, other
operators see that beside it.`,
		Example: `  muster alarms list
  muster alarms acknowledge machines-quarantined --note 'the vendor comes on Monday' --for 3d`,
	}, a.alarmsList(), a.alarmsAcknowledge())
}

func (a *app) alarmsList() *cobra.Command {
	c := listVerb("List the alarms that stand",
		`List the alarms that stand, when the newest of what each tells of came, and who knows of that.`,
		`  muster alarms list
  muster alarms list -o json`)
	output := formatFlag(c)
	return a.verb(c, func(ctx context.Context, _ []string) error {
		s, _, err := apiv1.GetStatus.Call(ctx, a, apiv1.Nothing{})
		if err != nil {
			return err
		}
		list := apiv1.List[apiv1.Alarm]{Items: append([]apiv1.Alarm{}, s.Alarms...)}
		return output.print(a.out, must(json.Marshal(list)), func() {
			if len(s.Alarms) == 0 {
				a.say("no alarm stands")
				return
			}
			t := newTable("ALARM", "NEWEST", "TEXT", "KNOWN TO", "UNTIL", "NOTE")
			for _, alarm := range s.Alarms {
				by, until, note := "", "", ""
				if k := alarm.Acknowledged; k != nil {
					by, until, note = k.By, spec.When(k.Until), k.Note
				}
				t.row(alarm.ID, textOf(alarm.Since, age), alarm.Text, by, until, note)
			}
			t.print(a.out)
		})
	})
}

func (a *app) alarmsAcknowledge() *cobra.Command {
	c := &cobra.Command{
		Use:     "acknowledge ALARM",
		Aliases: []string{"ack"},
		Short:   "Say that you know of an alarm",
		Long: `Say that you know of an alarm, so that others need not look. ` + "`muster status`" + ` and the console show that beside it until the
time is over, or the alarm tells of something newer.`,
		Example: `  muster alarms acknowledge machines-quarantined --note 'the vendor comes on Monday' --for 3d
  muster alarms acknowledge machines-quarantined --for 0s`,
		Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.completeFirst(func(ctx context.Context) (list []string, err error) {
			s, _, err := apiv1.GetStatus.Call(ctx, a, apiv1.Nothing{})
			for _, alarm := range s.Alarms {
				list = append(list, alarm.ID+"\t"+alarm.Text)
			}
			return list, err
		}),
	}
	var in apiv1.AcknowledgeAlarmInput
	c.Flags().StringVar(&in.Body.Note, "note", "", "a `NOTE` for other operators")
	c.Flags().StringVar(&in.Body.For, "for", "", "for this `TIME`, up to 30d; 0s takes it back (default: 1d)")
	return showing(a, c, apiv1.AcknowledgeAlarm, &in,
		func(alarm apiv1.Alarm) { a.say("%s: %s%s", alarm.ID, alarm.Text, known(alarm)) }, &in.Alarm)
}

// known says who knows of an alarm: " (known to ada until Thu 2026-12-03 14:05 UTC: the vendor comes)".
func known(alarm apiv1.Alarm) string {
	k := alarm.Acknowledged
	if k == nil {
		return ""
	}
	return fmt.Sprintf(" (known to %s until %s%s)", k.By, spec.When(k.Until), textIf(k.Note != "", ": "+k.Note))
}
