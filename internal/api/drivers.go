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

// declare puts into schemas what the drivers say of themselves.
func (d Drivers) declare(schemas huma.Registry) {
	schemas.Map()["NewMachine"].Properties["power"].Description = "how it is switched: " + d.Power.Usages()
	kinds := schemas.Map()["Network"].Properties["switch"]
	for _, name := range d.Switches.Names() {
		kinds.Enum = append(kinds.Enum, name)
	}
	kinds.PrecomputeMessages()
	enrolled := schemas.Map()["EnrolmentBody"].Properties["substrate"]
	var said []string
	for _, f := range d.Substrates {
		if f.Caps.Enrols != substrate.NotEnrolled {
			enrolled.Enum = append(enrolled.Enum, f.Name)
			said = append(said, f.Name+": "+f.Doc)
		}
	}
	enrolled.Description = strings.Join(said, "; ")
	enrolled.PrecomputeMessages()
}
