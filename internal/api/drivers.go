package api

import (
	"github.com/danielgtaylor/huma/v2"

	"muster/internal/drivers/power"
	switches "muster/internal/drivers/switch"
)

// Drivers are those that there are. What they say of themselves is in the API's document.
type Drivers struct {
	Power    power.Registry
	Switches switches.Registry
}

// declare puts into schemas what the drivers say of themselves.
func (d Drivers) declare(schemas huma.Registry) {
	schemas.Map()["NewMachine"].Properties["power"].Description = "how it is switched: " + d.Power.Usages()
	kinds := schemas.Map()["Network"].Properties["switch"]
	for _, name := range d.Switches.Names() {
		kinds.Enum = append(kinds.Enum, name)
	}
	kinds.PrecomputeMessages()
}
