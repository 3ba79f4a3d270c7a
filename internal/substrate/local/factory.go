package local

import (
	"time"

	"muster/internal/substrate"
)

// Factory describes nodes in namespaces.
func Factory() substrate.Factory {
	return substrate.Factory{
		Name: "local",
		Doc:  "Linux namespaces on the controller's host",
		Caps: substrate.Capabilities{OnHost: true, KeepsHead: true, Enrols: substrate.ByNumber, Turnaround: 10 * time.Second},
	}
}
