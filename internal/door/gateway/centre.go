package gateway

import (
	"context"
	"fmt"
	"net"
	"slices"

	"muster/internal/core"
	"muster/internal/door/centre"
	"muster/internal/identity"
	centres "muster/internal/kinds/centre"
)

// Centres are clusters that Muster did not build as places.
type Centres struct{ Authority *identity.Authority }

// KindCentre is that of clusters that Muster did not build.
const KindCentre = "external"

// Places lists the centres that these projects may use.
func (s Centres) Places(ctx context.Context, tx *core.Tx, projects []string, name string) ([]Place, error) {
	centres, err := centres.List(ctx, tx)
	var all []Place
	for _, c := range centres {
		for _, p := range c.Projects {
			if slices.Contains(projects, p.Project) && (name == "" || name == c.Name) {
				all = append(all, s.place(c, p))
			}
		}
	}
	return all, err
}

func (s Centres) place(c centres.Centre, p centres.Project) Place {
	return Place{
		Kind: KindCentre, ID: c.Name, Project: p.Project, Name: c.Name,
		Admits: func(person string) bool { return c.Account(p, person) != "" },
		Open: func(_ context.Context, _ *core.Tx, person string) (Target, error) {
			way, err := centre.Way(s.Authority, c, person, c.Account(p, person))
			way.Project = p.Project
			return Target{
				Target: way,
				Jump: func(context.Context, string) (net.Conn, error) {
					return nil, &Refusal{
						Text: fmt.Sprintf("ProxyJump to external cluster %s is not possible", c.Name),
						Hint: "log in with " + c.Name + " as the user name",
					}
				},
				// Where else one gets from there is the centre's to say, to people who have logged in.
				Forward: func(host string) (string, bool) {
					return host, host == "localhost" || host == "127.0.0.1" || host == "::1"
				},
			}, err
		},
		Why: func(person string, err error) *Refusal {
			return &Refusal{
				Text: "external cluster " + c.Name + " cannot be entered: " + centre.Why(c, c.Account(p, person), err),
			}
		},
	}
}
