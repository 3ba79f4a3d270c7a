package inventory

import "fmt"

// Location is where a machine stands. The zero value means that it is not known.
type Location struct {
	Rack   string `json:"rack"`
	Unit   int    `json:"unit"`           // the lowest that it fills, from the floor, from 1
	Height int    `json:"height"`         // units that it fills
	Slot   int    `json:"slot,omitempty"` // of a chassis that fills these units, from 1; 0: it does so itself
}

// HighestUnit is the highest that anything stands in.
const HighestUnit = 99

// Check says what is wrong with a location; nil: nothing is.
func (l Location) Check() error {
	if top := l.Unit + l.Height - 1; l.Rack != "" && top > HighestUnit {
		return fmt.Errorf("%s: no rack has more than %d units", l, HighestUnit)
	}
	return nil
}

// Overlaps says that two machines cannot both stand where they are said to.
func (l Location) Overlaps(other Location) bool {
	return l.Rack != "" && l.Rack == other.Rack && l.Unit < other.Unit+other.Height && other.Unit < l.Unit+l.Height &&
		(l.Slot == other.Slot || l.Slot == 0 || other.Slot == 0)
}

// String says it in a user's words: "rack r01, units 12 to 13, slot 2".
func (l Location) String() string {
	if l.Rack == "" {
		return "no rack that is known"
	}
	text := fmt.Sprintf("rack %s, unit %d", l.Rack, l.Unit)
	if l.Height > 1 {
		text = fmt.Sprintf("rack %s, units %d to %d", l.Rack, l.Unit, l.Unit+l.Height-1)
	}
	if l.Slot > 0 {
		text += fmt.Sprintf(", slot %d", l.Slot)
	}
	return text
}
