package gateway

import (
	"context"
	"fmt"
	"net"
	"slices"

	"muster/internal/core"
	"muster/internal/door/external"
	"muster/internal/identity"
	externals "muster/internal/kinds/external"
)

// ExternalClusters are clusters that Muster did not build, as places.
type ExternalClusters struct{ Authority *identity.Authority }

// KindExternal is that of clusters that Muster did not build.
const KindExternal = "external"

// Places lists the external clusters that these projects may use.
func (s ExternalClusters) Places(ctx context.Context, tx *core.Tx, projects []string, name string) ([]Place, error) {
	clusters, err := externals.List(ctx, tx)
	var all []Place
	for _, c := range clusters {
		for _, p := range c.Projects {
			if slices.Contains(projects, p.Project) && (name == "" || name == c.Name) {
				all = append(all, s.place(c, p))
			}
		}
	}
	return all, err
}

func (s ExternalClusters) place(c externals.Cluster, p externals.Project) Place {
	return Place{
		Kind: KindExternal, ID: c.Name, Project: p.Project, Name: c.Name,
		Admits: func(person string) bool { return c.Account(p, person) != "" },
		Open: func(_ context.Context, _ *core.Tx, person string) (Target, error) {
			way, err := external.Way(s.Authority, c, person, c.Account(p, person))
			way.Project = p.Project
			return Target{
				Target: way,
				Jump: func(context.Context, string) (net.Conn, error) {
					return nil, &Refusal{
						Text: fmt.Sprintf("ProxyJump to external cluster %s is not possible", c.Name),
						Hint: "log in with " + c.Name + " as the user name",
					}
				},
				// Where else one gets from there is the external cluster's to say, to people who have logged in.
				Forward: func(host string) (string, bool) {
					return host, host == "localhost" || host == "127.0.0.1" || host == "::1"
				},
			}, err
		},
		Why: func(person string, err error) *Refusal {
			return &Refusal{
				Text: "external cluster " + c.Name + " cannot be entered: " + external.Why(c, c.Account(p, person), err),
			}
		},
	}
}
