package authority

import (
	"muster/internal/core"
)

// Definition registers the keys that the site signs with, and those of its gateways. They have no life.
func Definition() core.Definition {
	return core.Definition{Kind: "authority", Sealed: []core.SealedColumn{gatewayPrivate(), authoritySeed()}}
}

func gatewayPrivate() core.SealedColumn {
	return core.SealedColumn{Table: "gateway_key", Name: "private", Row: "line"}
}

func authoritySeed() core.SealedColumn {
	return core.SealedColumn{Table: "authority", Name: "seed", Row: "use || ' ' || number"}
}
