package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"muster/internal/inventory"
	"muster/internal/place/calendar"
)

var start = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// at is a number of hours after the start; 0 as an end is: without end.
func at(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }

func end(hours int) time.Time {
	if hours == 0 {
		return time.Time{}
	}
	return at(hours)
}

// class has machines of at least so many CPUs: of two, the lower one has all machines of the higher one.
func class(t interface{ Fatal(...any) }, cpus int) inventory.Class {
	c, err := inventory.ParseCondition(fmt.Sprintf("cpus >= %d", cpus))
	if err != nil {
		t.Fatal(err)
	}
	return inventory.Class{Name: fmt.Sprintf("c%d", cpus), Select: []inventory.Condition{c}}
}

// exactly has machines of just so many CPUs.
func exactly(t interface{ Fatal(...any) }, cpus int) inventory.Class {
	c, err := inventory.ParseCondition(fmt.Sprintf("cpus = %d", cpus))
	if err != nil {
		t.Fatal(err)
	}
	return inventory.Class{Name: fmt.Sprintf("c%d", cpus), Select: []inventory.Condition{c}}
}

func machine(i, cpus int, by string, until int) calendar.Machine {
	name := fmt.Sprintf("m%d", i)
	m := calendar.Machine{Machine: inventory.Machine{ID: name, Name: name, Facts: inventory.Facts{CPUs: cpus}}, By: by}
	if by != "" {
		m.Until = end(until)
	}
	return m
}

func booking(by string, from, until, nodes int, classes ...inventory.Class) calendar.Booking {
	return calendar.Booking{By: by, From: at(from), Until: end(until), Wants: []calendar.Want{{Classes: classes, Nodes: nodes}}}
}

func TestAReservationAndTheLeasesAroundIt(t *testing.T) {
	any := class(t, 1)
	c := calendar.Calendar{Now: start}
	for i := range 4 {
		c.Machines = append(c.Machines, machine(i, 2, "", 0))
	}
	c.Bookings = []calendar.Booking{booking("course", 8, 10, 3, any)}
	for _, test := range []struct {
		name             string
		from, until, n   int
		fits             bool
		first, firstEver int // hours; -1: never
	}{
		{"one machine is not reserved", 0, 0, 1, true, 0, 0},
		{"two are too many for ever", 0, 0, 2, false, 10, 0},
		{"a short lease fills the time before", 0, 8, 4, true, 0, 0},
		{"one that is longer by an hour does not", 0, 9, 2, false, 10, 0},
		{"beside the reservation", 8, 10, 1, true, 8, 0},
		{"more than there are, never", 0, 1, 5, false, -1, 0},
		{"across its end", 9, 12, 2, false, 10, 0},
	} {
		b := booking("new", test.from, test.until, test.n, any)
		given, conflict := c.Check(b)
		if (conflict == nil) != test.fits {
			t.Errorf("%s: %+v", test.name, conflict)
		}
		if test.fits && test.from == 0 && len(given) != test.n {
			t.Errorf("%s: was given %d machines", test.name, len(given))
		}
		first, ever := c.First(b)
		if want := test.first; ever != (want >= 0) || ever && !first.Equal(at(want)) {
			t.Errorf("%s: first fits at %s (%v)", test.name, first, ever)
		}
	}
}

func TestWhoRunsMayGoOnUntilAReservation(t *testing.T) {
	any := class(t, 1)
	c := calendar.Calendar{Now: start,
		Machines: []calendar.Machine{machine(1, 2, "a", 2), machine(2, 2, "a", 2), machine(3, 2, "", 0)},
		Bookings: []calendar.Booking{booking("one", 5, 6, 1, any), booking("course", 8, 10, 2, any)},
	}
	for _, test := range []struct{ until, latest int }{{5, 5}, {7, 7}, {8, 8}, {9, 8}, {0, 8}, {1, 1}} {
		latest, conflict := c.Extend("a", end(test.until))
		if !latest.Equal(at(test.latest)) || (conflict == nil) != (test.until == test.latest) {
			t.Errorf("until hour %d: until %s, %+v", test.until, latest, conflict)
		}
		if conflict != nil && conflict.Hurts.By != "course" {
			t.Errorf("until hour %d: %+v", test.until, conflict)
		}
	}
	c.Bookings = append(c.Bookings, booking("later", 20, 21, 2, any))
	if latest, conflict := c.Extend("course", at(30)); conflict == nil || !latest.Equal(at(20)) {
		t.Error("a reservation that is to come:", latest, conflict)
	}
}

func TestTheMachineThatOthersNeedIsLeftToThem(t *testing.T) {
	c := calendar.Calendar{Now: start,
		Machines: []calendar.Machine{machine(1, 64, "", 0), machine(2, 2, "", 0)},
		Bookings: []calendar.Booking{booking("big", 5, 6, 1, class(t, 64))},
	}
	given, conflict := c.Check(booking("any", 0, 0, 1, class(t, 1)))
	if conflict != nil || len(given) != 1 || given[0].Name != "m2" {
		t.Error(given, conflict)
	}
}

func TestWhatIsBrokenAnywayHindersNobodyElse(t *testing.T) {
	c := calendar.Calendar{Now: start,
		Machines: []calendar.Machine{machine(1, 2, "", 0), machine(2, 4, "", 0)},
		Bookings: []calendar.Booking{booking("lost", 5, 6, 3, exactly(t, 4))},
	}
	if _, conflict := c.Check(booking("new", 0, 0, 1, exactly(t, 2))); conflict != nil {
		t.Errorf("%+v", conflict)
	}
	if _, conflict := c.Check(booking("new", 0, 0, 1, exactly(t, 4))); conflict == nil || conflict.Hurts.By != "lost" {
		t.Errorf("%+v", conflict)
	}
	if lacks := c.Lacking(); lacks[0] != 2 {
		t.Error(lacks)
	}
}

// world is a small calendar for the oracle: hours 0 to 8.
const horizon = 8

// dice draws a number between two, both included.
type dice func(least, most int) int

func of(t *rapid.T) dice {
	return func(least, most int) int { return rapid.IntRange(least, most).Draw(t, "") }
}

func draw(d dice, classes []inventory.Class) calendar.Calendar {
	c := calendar.Calendar{Now: start}
	for i := range d(1, 4) {
		by, until := "", 0
		if d(0, 1) == 1 {
			by, until = "x", d(0, horizon)
		}
		c.Machines = append(c.Machines, machine(i, d(1, len(classes)), by, until))
	}
	return c
}

func drawBooking(d dice, by string, classes []inventory.Class) calendar.Booking {
	from := d(0, horizon-1)
	until := d(from, horizon)
	if until == from {
		until = 0
	}
	b := calendar.Booking{By: by, From: at(from), Until: end(until)}
	for range d(1, 2) {
		b.Wants = append(b.Wants, calendar.Want{Classes: []inventory.Class{classes[d(0, len(classes)-1)]}, Nodes: d(1, 2)})
	}
	return b
}

// possible tries everything: is there a machine for every node of every booking, for the whole of its time?
func possible(c calendar.Calendar, all []calendar.Booking) bool {
	type node struct {
		b     calendar.Booking
		class inventory.Class
	}
	var nodes []node
	for _, b := range all {
		for _, w := range b.Wants {
			for range w.Nodes {
				nodes = append(nodes, node{b, w.Classes[0]})
			}
		}
	}
	overlap := func(a, b calendar.Booking) bool {
		return (a.Until.IsZero() || b.From.Before(a.Until)) && (b.Until.IsZero() || a.From.Before(b.Until))
	}
	on := make([]int, len(nodes))
	var place func(i int) bool
	place = func(i int) bool {
		if i == len(nodes) {
			return true
		}
	machines:
		for m, machine := range c.Machines {
			if !nodes[i].class.Has(machine.Machine) || machine.By != "" &&
				(machine.Until.IsZero() || machine.Until.After(nodes[i].b.From) || !nodes[i].b.From.After(c.Now)) {
				continue
			}
			for j := range i {
				if on[j] == m && overlap(nodes[i].b, nodes[j].b) {
					continue machines
				}
			}
			on[i] = m
			if place(i + 1) {
				return true
			}
		}
		return false
	}
	return place(0)
}

// admit fills a calendar with what it accepts.
func admit(t interface{ Fatalf(string, ...any) }, d dice, c *calendar.Calendar, classes []inventory.Class,
	refused func(calendar.Booking)) {
	for i := range d(1, 8) {
		b := drawBooking(d, fmt.Sprint(i), classes)
		if given, conflict := c.Check(b); conflict == nil {
			for _, m := range given {
				held := false
				for _, have := range c.Machines {
					held = held || have.ID == m.ID && have.By != ""
				}
				if held {
					t.Fatalf("%s was given, which is held", m.Name)
				}
			}
			c.Bookings = append(c.Bookings, b)
		} else {
			refused(b)
		}
	}
}

func TestNothingIsPromisedThatCannotBe(t *testing.T) {
	classes := []inventory.Class{class(t, 1), class(t, 2), exactly(t, 1), exactly(t, 2)}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(of(t), classes)
		admit(t, of(t), &c, classes, func(calendar.Booking) {})
		if !possible(c, c.Bookings) {
			t.Fatalf("accepted what is impossible: %+v", c)
		}
		for i, lacks := range c.Lacking() {
			if lacks > 0 {
				t.Fatalf("booking %d was accepted and lacks %d", i, lacks)
			}
		}
		b := drawBooking(of(t), "first", classes)
		if from, ever := c.First(b); ever {
			if !b.Until.IsZero() {
				b.Until = from.Add(b.Until.Sub(b.From))
			}
			b.From = from
			if _, conflict := c.Check(b); conflict != nil || !possible(c, append(c.Bookings, b)) {
				t.Fatalf("it was to fit at %s: %+v", from, conflict)
			}
		}
	})
}

func TestWhereClassesDoNotOverlapEverythingThatFitsIsAccepted(t *testing.T) {
	classes := []inventory.Class{exactly(t, 1), exactly(t, 2)}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(of(t), classes)
		admit(t, of(t), &c, classes, func(b calendar.Booking) {
			if possible(c, append(c.Bookings, b)) {
				t.Fatalf("refused what fits: %+v in %+v", b, c)
			}
		})
		b := drawBooking(of(t), "first", classes)
		first, ever := c.First(b)
		for from := b.From; !from.After(at(2 * horizon)); from = from.Add(time.Hour) {
			moved := b
			moved.From = from
			if !b.Until.IsZero() {
				moved.Until = from.Add(b.Until.Sub(b.From))
			}
			if possible(c, append(c.Bookings, moved)) {
				if !ever || !first.Equal(from) {
					t.Fatalf("fits first at %s, said %s (%v)", from, first, ever)
				}
				return
			}
		}
		if ever {
			t.Fatalf("said %s, and it never fits", first)
		}
	})
}

// Where classes overlap the calendar may refuse what a search through everything would fit in. Here it is counted.
func TestWhereClassesOverlapLittleIsRefusedInVain(t *testing.T) {
	classes := []inventory.Class{class(t, 1), class(t, 2), class(t, 3)}
	accepted, refused, vain := 0, 0, 0
	chance := rand.New(rand.NewPCG(1, 2))
	d := dice(func(least, most int) int { return least + chance.IntN(most-least+1) })
	for range 2000 {
		c := draw(d, classes)
		admit(t, d, &c, classes, func(b calendar.Booking) {
			refused++
			if possible(c, append(c.Bookings, b)) {
				vain++
			}
		})
		accepted += len(c.Bookings)
	}
	t.Logf("%d accepted, %d refused, of which %d in vain", accepted, refused, vain)
	if vain*100 > accepted {
		t.Errorf("%d accepted and %d refused in vain: more than 1 in 100", accepted, vain)
	}
}

func TestALeaseMayGoOnForAsLongAsItHurtsNobody(t *testing.T) {
	classes := []inventory.Class{exactly(t, 1), exactly(t, 2)}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(of(t), classes)
		for i := range c.Machines { // all that are held have one end
			if c.Machines[i].By != "" {
				c.Machines[i].Until = at(1)
			}
		}
		admit(t, of(t), &c, classes, func(calendar.Booking) {})
		until := at(of(t)(2, horizon))
		latest, conflict := c.Extend("x", until)
		fits := func(end time.Time) bool {
			longer := c
			longer.Machines = append([]calendar.Machine{}, c.Machines...)
			for i := range longer.Machines {
				if longer.Machines[i].By != "" {
					longer.Machines[i].Until = end
				}
			}
			return possible(longer, c.Bookings)
		}
		if (conflict == nil) != fits(until) || conflict == nil && !latest.Equal(until) {
			t.Fatalf("until %s: %s, %+v", until, latest, conflict)
		}
		if conflict != nil && !fits(latest) {
			t.Fatalf("until %s was offered, and hurts", latest)
		}
		if conflict != nil && fits(latest.Add(time.Hour)) {
			t.Fatalf("until %s was offered, and an hour more would do", latest)
		}
	})
}

// Each time that is tried costs as much as there are bookings. Who has many of them is told of no time, which is a hint only.
func TestALookForTheFirstTimeIsBounded(t *testing.T) {
	for bookings, found := range map[int]bool{100: true, 2000: false} {
		c := calendar.Calendar{Now: start, Machines: []calendar.Machine{machine(1, 1, "", 0)}}
		for i := range bookings {
			c.Bookings = append(c.Bookings, booking(fmt.Sprint(i), i, i+1, 1, class(t, 1)))
		}
		first, ok := c.First(booking("new", 0, 1, 1, class(t, 1)))
		if ok != found || ok && !first.Equal(at(bookings)) {
			t.Errorf("beside %d bookings, it fits first at %s (%v)", bookings, first, ok)
		}
	}
}

func large(b *testing.B) (calendar.Calendar, calendar.Booking) {
	classes := []inventory.Class{class(b, 1), class(b, 2), class(b, 3), exactly(b, 4)}
	c := calendar.Calendar{Now: start}
	for i := range 1000 {
		by, until := "", 0
		if i%2 == 0 {
			by, until = fmt.Sprint("c", i%50), 1+i%50
		}
		c.Machines = append(c.Machines, machine(i, 1+i%4, by, until))
	}
	for i := range 200 {
		c.Bookings = append(c.Bookings, booking(fmt.Sprint("r", i), 2+i, 2+i+24, 8+i%16, classes[i%4]))
	}
	return c, booking("new", 0, 48, 600, classes[0])
}

func BenchmarkCheck1000Machines200Reservations(b *testing.B) {
	c, request := large(b)
	for b.Loop() {
		c.Check(request)
	}
}

func BenchmarkFirst1000Machines200Reservations(b *testing.B) {
	c, request := large(b)
	if from, ever := c.First(request); !ever || from.Equal(start) {
		b.Fatal("a benchmark of nothing:", from, ever)
	}
	for b.Loop() {
		c.First(request)
	}
}

func TestTheTableAddsUp(t *testing.T) {
	classes := []inventory.Class{class(t, 1), class(t, 2), exactly(t, 1), exactly(t, 2)}
	rapid.Check(t, func(t *rapid.T) {
		c := draw(of(t), classes)
		admit(t, of(t), &c, classes, func(calendar.Booking) {})
		table := c.Table(classes, start, at(horizon))
		for i, slots := range table {
			size, from := 0, start
			for _, m := range c.Machines {
				if classes[i].Has(m.Machine) {
					size++
				}
			}
			for _, s := range slots {
				if !s.From.Equal(from) || !s.Until.After(s.From) {
					t.Fatalf("class %d has a gap before %s: %+v", i, s.From, slots)
				}
				from = s.Until
				by := 0
				for _, share := range s.By {
					by += share.Machines
				}
				if s.Free < 0 || s.Free+s.Held+s.Reserved != size || by != s.Held+s.Reserved {
					t.Fatalf("class %d of %d machines: %+v", i, size, s)
				}
			}
			if !from.Equal(at(horizon)) {
				t.Fatalf("class %d ends at %s", i, from)
			}
		}
		for h := range horizon { // every booking that was accepted is there in full
			for _, b := range c.Bookings {
				wanted, shown := 0, 0
				for _, w := range b.Wants {
					wanted += w.Nodes
				}
				for _, s := range table[0] { // all machines
					for _, share := range s.By {
						if share.By == b.By && share.Reserved && !s.From.After(at(h)) && s.Until.After(at(h)) {
							shown += share.Machines
						}
					}
				}
				if lasts := !b.From.After(at(h)) && (b.Until.IsZero() || b.Until.After(at(h))); lasts != (shown > 0) || lasts &&
					shown != wanted {
					t.Fatalf("hour %d: booking %s of %d is shown with %d", h, b.By, wanted, shown)
				}
			}
		}
	})
}

// TestATableOfManyReservationsIsBounded: tenants say how many there are.
func TestATableOfManyReservationsIsBounded(t *testing.T) {
	c := calendar.Calendar{Now: start}
	for i := range 2000 {
		c.Machines = append(c.Machines, machine(i, 1, fmt.Sprintf("c%d", i), i+1))
	}
	slots := c.Table([]inventory.Class{class(t, 1)}, start, at(2000))[0]
	if n := len(slots); n != 500 || !slots[n-1].Until.Equal(at(500)) {
		t.Errorf("%d slots, until %s", n, slots[n-1].Until)
	}
	for _, s := range slots {
		sum := 0
		for _, share := range s.By {
			sum += share.Machines
		}
		if last := s.By[len(s.By)-1]; len(s.By) != 21 || last.By != calendar.Others || sum != s.Held {
			t.Fatalf("%d machines are held, and shown as %+v", s.Held, s.By)
		}
	}
}
