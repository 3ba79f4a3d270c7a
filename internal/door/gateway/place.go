package gateway

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/door/gateway/target"
	"muster/internal/kit/lists"
)

// Source knows the places of one kind: Muster's own clusters, or those that were registered.
type Source interface {
	// Places lists the places in these projects, for any caller: those of a name, or all with "".
	Places(ctx context.Context, tx *core.Tx, projects []string, name string) ([]Place, error)
}

// Place is where a session may go. One that serves several projects is one Place for each of them.
type Place struct {
	Kind    string // "cluster" or "external"
	ID      string
	Project string
	Name    string
	// Admits says whether it takes a person who may enter in the project.
	Admits func(person string) bool
	// Open says how to get in. Why one cannot now is a *Refusal. It asks the database only.
	Open func(ctx context.Context, tx *core.Tx, person string) (Target, error)
	// Why says what it means when connecting failed; nil: there are no better words than that it did.
	Why func(person string, err error) *Refusal
}

// ref is how a person may call a place, wherever else there is one of that name.
func (p Place) ref() string { return p.Project + "/" + p.Name }

// Target is a place that can be entered, with what else can be reached there.
type Target struct {
	target.Target
	// Jump connects with the SSH port of a node, by its name there; "" is where one logs in. nil: ProxyJump does not
	// lead there.
	Jump func(ctx context.Context, node string) (net.Conn, error)
	// Forward is the address, seen from where one logs in, of a host that ports may be forwarded to. nil: none are.
	Forward func(host string) (address string, ok bool)
}

// Refusal is why somebody does not get in, for them to read.
type Refusal struct {
	Text   string
	Hint   string
	Resume bool // it is paused, and its owner wants logins to bring it back
	Wait   bool // it comes up: one may wait for it
}

func (r *Refusal) Error() string {
	if r.Hint == "" {
		return r.Text
	}
	return r.Text + "; " + r.Hint
}

// places lists what a caller may enter: of a name, or all with "".
func (g *Gateway) places(ctx context.Context, tx *core.Tx, c access.Caller, name string) ([]Place, error) {
	var all []Place
	projects := slices.DeleteFunc(c.Projects(), func(project string) bool { return !c.May(access.Enter, project) })
	for _, source := range g.Sources {
		places, err := source.Places(ctx, tx, projects, name)
		if err != nil {
			return nil, err
		}
		all = append(all, places...)
	}
	return slices.DeleteFunc(all, func(p Place) bool { return !c.May(access.Enter, p.Project) || !p.Admits(c.Name) }), nil
}

// find is the one place that a reference means to a caller.
func (g *Gateway) find(ctx context.Context, tx *core.Tx, c access.Caller, ref string) (Place, error) {
	_, name := access.Named(ref)
	named, err := g.places(ctx, tx, c, name)
	if err != nil {
		return Place{}, err
	}
	found := access.Choose(c, ref, named, func(p Place) (project, name string) { return p.Project, p.Name })
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		all, err := g.places(ctx, tx, c, "")
		if err != nil {
			return Place{}, err
		}
		return Place{}, unknown(ref, c, all)
	}
	return Place{}, &Refusal{Text: fmt.Sprintf("%s may be %s", ref, names(found, " or ")), Hint: "write the project too, as " +
		found[0].ref() + " or " + found[0].Name + "." + found[0].Project}
}

// unknown says that there is no such place, and what there is. It is the same for those of others.
func unknown(ref string, c access.Caller, all []Place) *Refusal {
	r := &Refusal{Text: fmt.Sprintf("%s has no cluster %q to log in to", c.Name, ref), Hint: "you can log in to " +
		names(all, ", ")}
	if len(all) == 0 {
		r.Hint = "`muster create` makes one; to log in takes the role of a member in its project"
	}
	return r
}

func names(places []Place, between string) string {
	refs := lists.Map(places, func(p Place) string { return p.ref() })
	return strings.Join(refs, between)
}

// errInternal is what a person is told of what is not their fault; the log has more.
var errInternal = errors.New("the gateway cannot do this now: its log says why; try again")

// Address is host:port by which people reach a gateway that listens at an address: the name, with the port of that unless it has
// one; without a name the address, with this host's own name where it is that of all interfaces.
func Address(listens, name string) string {
	host, port, err := net.SplitHostPort(listens)
	switch {
	case name == "" && err == nil && net.ParseIP(host).IsUnspecified():
		if own, err := os.Hostname(); err == nil {
			return net.JoinHostPort(own, port)
		}
	case name == "" || err != nil:
	case strings.Contains(name, ":"):
		return name
	default:
		return net.JoinHostPort(name, port)
	}
	return listens
}
