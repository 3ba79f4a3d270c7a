package host

import (
	"muster/internal/core"
)

// Definition registers what hosts of guests have given away and were told. They have no life beside their machines'.
func Definition() core.Definition {
	return core.Definition{Kind: "host", Races: []string{"allocation_pkey"}}
}
