package gateway

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"muster/internal/core"
	"muster/internal/door/gateway/target"
	"muster/internal/drivers/substrate"
	"muster/internal/identity"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/node"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// Clusters are Muster's own clusters as places.
type Clusters struct {
	Authority *identity.Authority
	Dialer    substrate.Dialer
}

// certificateLife is how long the certificate opens a cluster: long enough to connect, too short to leak.
const certificateLife = 5 * time.Minute

// KindCluster is that of Muster's own clusters.
const KindCluster = "cluster"

// Places lists the clusters of these projects.
func (s Clusters) Places(ctx context.Context, tx *core.Tx, projects []string, name string) ([]Place, error) {
	clusters, err := inProjects(ctx, tx, projects, name)
	if err != nil {
		return nil, err
	}
	var all []Place
	for _, c := range clusters {
		all = append(all, Place{
			Kind: KindCluster, ID: c.ID, Project: c.Project, Name: c.Name, Admits: c.Admits,
			Open: func(ctx context.Context, tx *core.Tx, person string) (Target, error) {
				return s.open(ctx, tx, c, person)
			},
		})
	}
	return all, nil
}

// inProjects lists the clusters of these projects, those of a name by its index.
func inProjects(ctx context.Context, tx *core.Tx, projects []string, name string) (all []cluster.Cluster, err error) {
	if name != "" {
		all, err = cluster.AllNamed(ctx, tx, name)
		return slices.DeleteFunc(all, func(c cluster.Cluster) bool { return !slices.Contains(projects, c.Project) }), err
	}
	for _, project := range projects {
		clusters, err := cluster.List(ctx, tx, project)
		if err != nil {
			return nil, err
		}
		all = append(all, clusters...)
	}
	return all, nil
}

// open says how to get into a cluster whose head can be logged in to now.
func (s Clusters) open(ctx context.Context, tx *core.Tx, c cluster.Cluster, person string) (Target, error) {
	nodes, err := node.Of(ctx, tx, c.ID)
	if err != nil {
		return Target{}, err
	}
	var head node.Node
	addresses := map[string]netip.Addr{} // by name
	for _, n := range nodes {
		if n.Role == protocol.Head {
			head = n
		}
		addresses[n.Name] = substrate.Address(n.Slot).Addr()
	}
	if err := closed(c, head); err != nil {
		return Target{}, err
	}
	checker := &ssh.CertChecker{IsHostAuthority: func(key ssh.PublicKey, _ string) bool { return s.Authority.IsHostCA(key) }}
	jump := func(ctx context.Context, node string) (net.Conn, error) {
		address, ok := addresses[cmp.Or(node, head.Name)]
		if !ok {
			return nil, &Refusal{Text: fmt.Sprintf("cluster %s has no node %q", c.Name, node), Hint: "`muster describe " +
				c.Project + "/" + c.Name + "` lists them"}
		}
		return s.Dialer.Dial(ctx, c.ID, netip.AddrPortFrom(address, sshPort))
	}
	return Target{
		Target: target.Target{
			Project: c.Project, Name: c.Name, Cluster: c.ID, Account: person,
			Dial:  func(ctx context.Context) (net.Conn, error) { return jump(ctx, "") },
			Host:  net.JoinHostPort(head.Name+"."+c.Name, "22"), // is in no other cluster's certificates
			Known: checker.CheckHostKey, Algorithms: []string{ssh.CertAlgoED25519v01},
			Certify: func(key ssh.PublicKey) (string, error) {
				return s.Authority.CertifyUser(string(ssh.MarshalAuthorizedKey(key)), person, person, time.Now(), certificateLife)
			},
		},
		Jump: jump,
		Forward: func(host string) (string, bool) {
			if host == "localhost" || host == "127.0.0.1" || host == "::1" {
				return host, true // the head itself
			}
			for name, address := range addresses {
				if strings.EqualFold(host, name) || strings.EqualFold(host, name+"."+c.Name) || host == address.String() {
					return address.String(), true
				}
			}
			return "", false
		},
	}, nil
}

// closed is why a cluster cannot be entered now; nil if it can.
func closed(c cluster.Cluster, head node.Node) error {
	events := "`muster events -w " + c.Project + "/" + c.Name + "` shows its progress"
	switch {
	case c.Desired == core.ToDelete:
		return &Refusal{Text: fmt.Sprintf("cluster %s is being deleted", c.Name)}
	case c.Phase == cluster.Paused:
		return &Refusal{
			Text:   fmt.Sprintf("cluster %s is paused since %s", c.Name, c.PhaseAt.UTC().Format("2006-01-02 15:04 MST")),
			Hint:   "`muster resume " + c.Project + "/" + c.Name + " --wait` brings it back",
			Resume: c.Desired == cluster.ToPause && spec.ResumesOnLogin(c.Spec), Wait: c.Desired == core.Present,
		}
	case c.Desired == cluster.ToPause:
		return &Refusal{Text: fmt.Sprintf("cluster %s is pausing: %s", c.Name, c.Reason), Hint: events}
	case head.ID == "" || head.Phase != core.Ready && head.Phase != node.Draining:
		return &Refusal{Text: fmt.Sprintf("cluster %s does not accept logins now: %s", c.Name, progress(c, head)), Hint: events,
			Wait: true}
	}
	return nil
}

func progress(c cluster.Cluster, head node.Node) string {
	text := c.Stands()
	if head.ID != "" {
		text += fmt.Sprintf("; its head is %s", head.Phase)
	}
	return text
}

// resume brings back the paused place that the user name says.
func (v *visit) resume(ctx context.Context) (Place, error) {
	p, _, _, err := v.resolve(ctx, v.login.ref)
	if p.ID == "" || v.g.Resume == nil {
		return p, err
	}
	return p, v.tellable(ctx, v.g.Resume(ctx, p.ID, v.who.caller.Name))
}
