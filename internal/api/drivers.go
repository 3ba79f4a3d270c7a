package api

import (
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"muster/internal/drivers/power"
	"muster/internal/drivers/substrate"
	switches "muster/internal/drivers/switch"
)

// Drivers are those that there are. What they say of themselves is in the API's document.
type Drivers struct {
	Power      power.Registry
	Switches   switches.Registry
	Substrates substrate.Registry
}

// enrolled are the substrates whose machines users enrol.
func (d Drivers) enrolled() (all substrate.Registry) {
	for _, f := range d.Substrates {
		if f.Caps.Enrols != substrate.NotEnrolled {
			all = append(all, f)
		}
	}
	return all
}

// describe puts into schemas what the drivers say of themselves.
func (d Drivers) describe(schemas huma.Registry) {
	schemas.Map()["NewMachine"].Properties["power"].Description = "how it is switched: " + d.Power.Usages()
	said := each(d.enrolled(), func(f substrate.Factory) string { return f.Name + ": " + f.Doc })
	schemas.Map()["EnrolmentBody"].Properties["substrate"].Description = strings.Join(said, "; ")
}
