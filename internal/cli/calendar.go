package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "muster/api/v1"
	"muster/internal/kit/words"
	"muster/internal/spec"
)

func (a *app) calendar() *cobra.Command {
	c := &cobra.Command{
		Use:   "calendar [--class CLASS] [--from TIME] [--to TIME]",
		Short: "Show which machines are free, held and reserved when",
		Long: `Show for each class, from now on, how many of its machines are free, used by clusters until their leases end, and
reserved by clusters that start later, with one line per period. In the bar, # is a machine in use, = a reserved one and . a
free one; of many machines each character is an equal share. Classes may overlap: a machine counts in each of its classes.

Times are in UTC, by the clock of the site's database. A cluster whose lease has no end keeps its machines.`,
		Example: `  muster calendar
  muster calendar --class epyc-ib --to +30d
  muster calendar --from 2027-03-01T08:00:00Z --to 2027-03-02T08:00:00Z -o json`,
		Args: cobra.NoArgs,
	}
	var in apiv1.GetCalendarInput
	c.Flags().StringVar(&in.Class, "class", "", "only this `CLASS`")
	c.Flags().StringVar(&in.From, "from", "", "a `TIME` in RFC 3339, or +2d from now (default: now)")
	c.Flags().StringVar(&in.To, "to", "", "a `TIME` in RFC 3339, or +2d from now (default: a week after --from)")
	return showing(a, c, apiv1.GetCalendar, &in, a.printCalendar)
}

func (a *app) printCalendar(c apiv1.Calendar) {
	for i, class := range c.Classes {
		if i > 0 {
			a.out.gap()
		}
		a.out.line("class %s: %s in service", class.Name, words.Count(class.Machines, "machine"))
		if class.Machines == 0 {
			continue
		}
		t := newTable("FROM", "UNTIL", "FREE", "HELD", "RESERVED", "", "BY")
		for _, s := range class.Slots {
			t.row(spec.When(s.From), spec.When(s.Until), strconv.Itoa(s.Free), strconv.Itoa(s.Held), strconv.Itoa(s.Reserved),
				bar(s, class.Machines), shares(s.By))
		}
		t.print(a.out)
	}
}

// bar draws machines: held, reserved, free.
func bar(s apiv1.Slot, machines int) string {
	width := min(machines, 24)
	held := min(max(s.Held, 0)*width/machines, width)
	taken := min(max(s.Held+s.Reserved, 0)*width/machines, width)
	taken = max(taken, held)
	return strings.Repeat("#", held) + strings.Repeat("=", taken-held) + strings.Repeat(".", width-taken)
}

// shares names who has how many: "cfd 4, course 6 reserved".
func shares(by []apiv1.CalendarShare) string {
	var words []string
	for _, share := range by {
		words = append(words, fmt.Sprintf("%s %d%s", share.Cluster, share.Machines, textIf(share.Reserved, " reserved")))
	}
	return strings.Join(words, ", ")
}
