package person

import (
	"muster/internal/core"
)

// Definition registers people, with their projects, tokens, keys, sessions and answers. They have no life.
func Definition() core.Definition {
	return core.Definition{Kind: "person", Races: []string{"person_uid_key"}}
}
