package api_test

import (
	"bufio"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	"muster/internal/kinds/bench"
	"muster/internal/kinds/cluster"
	"muster/internal/kinds/job"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/node"
	"muster/internal/kinds/person"
	"muster/internal/kinds/snapshot"
	"muster/internal/protocol"
	"muster/internal/spec"
)

// hide adds a project to tenants in which every name begins with hidden, with something of everything that a project owns.
func hide(t *testing.T, db *core.Store) {
	t.Helper()
	ctx, one := t.Context(), 1
	c := spec.Cluster{Name: "hidden-cluster", Project: "hidden-project", Image: "debian13-hpc",
		Queues: []spec.Queue{{Name: "cpu", Class: "local", Min: &one, Max: &one}}, Head: &spec.Head{Class: "service"}}
	key := "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHIddenHiddenHiddenHiddenHiddenHiddenHiddenHi hidden-comment"
	if err := db.Update(ctx, func(tx *core.Tx) error {
		machines, err := machine.List(ctx, tx)
		if err != nil {
			return err
		}
		for _, step := range []func() error{
			func() error { return person.Add(ctx, tx, person.Person{Name: "hidden-person"}) },
			func() error {
				return person.AddToken(ctx, tx, person.HashToken("hidden-person"),
					person.Token{ID: "t-hidden", Person: "hidden-person", Name: "hidden-token", Kind: person.APIToken,
						Scope: access.Whole}, time.Hour)
			},
			func() error { return person.AddProject(ctx, tx, person.Project{Name: "hidden-project"}) },
			func() error {
				return person.SetMember(ctx, tx, person.Membership{Project: "hidden-project", Person: "hidden-person",
					Role: access.Owner})
			},
			func() error {
				return person.AddKey(ctx, tx, person.Key{Person: "hidden-person", Fingerprint: "SHA256:hidden", Line: key})
			},
			func() error {
				return cluster.Add(ctx, tx, cluster.Cluster{ID: "c-hid", Project: "hidden-project", Name: "hidden-cluster",
					Spec: c, Image: "sha256:00", CreatedBy: "hidden-person"})
			},
			func() error {
				n := node.Node{ID: "n-hid", Cluster: "c-hid", Name: "hidden-node", Role: protocol.Compute, Queue: "cpu",
					Class: "local", MachineID: machines[0].ID, Machine: machines[0].Name}
				return errors.Join(cluster.AddSeat(ctx, tx, "c-hid", cluster.Seat{Name: "hidden-node", Slot: 1}),
					node.Add(ctx, tx, n))
			},
			func() error {
				return snapshot.Add(ctx, tx, snapshot.Snapshot{ID: "s-hid", Project: "hidden-project", Name: "hidden-shot",
					ClusterID: "c-hid", Cluster: "hidden-cluster", Spec: c, CreatedBy: "hidden-person"})
			},
			func() error {
				return bench.Add(ctx, tx, bench.Run{ID: "b-hid", Project: "hidden-project", ClusterID: "c-hid",
					Cluster: "hidden-cluster", Account: "hidden-person", Plan: planned(t)})
			},
			func() error {
				return changed(ctx, tx, "b-hid", bench.Change{ID: "h-hid", Scope: bench.Scope{Cluster: "c-hid"}})
			},
			func() error {
				of := job.Job{Cluster: "hidden-cluster", ClusterID: "c-hid", Project: "hidden-project"}
				one := protocol.Job{Number: 1, ID: "1", User: "hidden-person", Name: "hidden-job"}
				now := protocol.CurrentJobs{Jobs: []protocol.CurrentJob{{Job: one}}}
				if err := ended(ctx, tx, of, protocol.EndedJob{Job: one}); err != nil {
					return err
				}
				_, err := job.Keep(ctx, tx, of, protocol.JobsTold{Current: &now})
				return err
			},
			func() error {
				tx.Log(core.Event{Type: "cluster.requested", Project: "hidden-project", ClusterID: "c-hid",
					Cluster: "hidden-cluster", Text: "hidden-text by hidden-person"})
				return person.Audit(ctx, tx, person.Entry{ID: "a-hid", Person: "hidden-person", Door: person.APIDoor,
					Action: "create-cluster", Project: "hidden-project", Object: "hidden-cluster", Outcome: "202"})
			},
		} {
			if err := step(); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// refs fills the parameters of a path: with the names that a project's things have, and how they may be written.
func refs(path, project, cluster, snapshot, person, token string) string {
	return strings.NewReplacer("{cluster}", cluster, "{snapshot}", snapshot, "{project}", project, "{person}", person, "{token}",
		token, "{machine}", "m1", "{network}", "n1", "{job}", "1", "{benchmark}", strings.Replace(snapshot, "s-", "b-", 1),
		"{change}", strings.Replace(snapshot, "s-", "h-", 1),
		"{fingerprint}", "SHA256:"+project).Replace(path)
}

// TestNobodyLearnsOfAnotherProject asks everything, of one's own things and of another project's, in every way in which
// it can be named. What comes back holds no name of the other project, and what is there cannot be told from what is not.
func TestNobodyLearnsOfAnotherProject(t *testing.T) {
	s, db := server(t, 8)
	tenants(t, db)
	hide(t, db)
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		limited := person.Token{ID: "t-limited", Person: "operator", Name: "test", Kind: person.APIToken, Scope: access.Whole,
			Project: "aero"}
		return person.AddToken(t.Context(), tx, person.HashToken("limited"), limited, time.Hour)
	}); err != nil {
		t.Fatal(err)
	}
	if got := call(t, s, "GET", "/v1/clusters", "", "Authorization", "Bearer operator"); !strings.Contains(got.text,
		"hidden-cluster") {
		t.Fatalf("there is nothing to hide: %s", got.text)
	}
	for _, who := range []string{"nobody", "viewer", "member", "owner", "limited"} {
		header := []string{"Authorization", "Bearer " + who}
		for _, op := range operations(t) { // first: later one's own entries in the audit log are of what one has asked for
			if op.method == http.MethodGet && op.id != "tunnel" {
				for _, query := range []string{"", "?limit=1000", "?project=hidden-project", "?person=hidden-person",
					"?project=hidden-project&by=row"} {
					path := refs(op.path, "aero", "cfd", "shot", "sam", "t-"+who) + query
					if got := call(t, s, op.method, path, "",
						header...); strings.Contains(strings.ReplaceAll(got.text, "project hidden-project: not found", ""),
						"hidden") {
						t.Errorf("%s learns by GET %s: %s", who, path, got.text)
					}
				}
			}
		}
		for _, op := range operations(t) {
			if !strings.Contains(op.path, "{") && !strings.Contains(op.example, "aero") {
				continue
			}
			ask := func(word, number string) reply {
				body := strings.ReplaceAll(strings.ReplaceAll(op.example, "aero", word+"-project"), "name: cfd",
					"name: "+word+"-cluster")
				for _, form := range [][2]string{{word + "-cluster", word + "-shot"},
					{word + "-project%2F" + word + "-cluster", word + "-project%2F" + word + "-shot"},
					{"c-" + number, "s-" + number}} {
					got := call(t, s, op.method, refs(op.path, word+"-project", form[0], form[1], word+"-person", "t-"+word),
						body, append(header, "Upgrade", apiv1.TunnelProtocol)...)
					if form[0] == "c-"+number {
						return got
					}
					if strings.Contains(got.text, "hidden-person") && !strings.Contains(op.path, "{person}") {
						t.Errorf("%s learns by %s: %s", who, op.id, got.text)
					}
				}
				panic("unreachable")
			}
			there, absent := ask("hidden", "hid"), ask("absent", "abs")
			same := strings.NewReplacer("absent", "hidden", "c-abs", "c-hid", "s-abs", "s-hid", "b-abs",
				"b-hid", "h-abs", "h-hid").Replace(absent.text)
			if there.status != absent.status || there.text != same {
				t.Errorf("%s can tell by %s that it is there:\n%d %s\n%d %s", who, op.id, there.status, there.text, absent.status,
					absent.text)
			}
		}
	}
}

// TestAnAnswerThatLastsEndsWithTheRight opens a tunnel and two watches of events, and takes the right away in every way.
func TestAnAnswerThatLastsEndsWithTheRight(t *testing.T) {
	t.Parallel()
	change := func(f func(context.Context, *core.Tx) error) func(*testing.T, *core.Store) {
		return func(t *testing.T, db *core.Store) {
			if err := db.Update(t.Context(), func(tx *core.Tx) error { return f(t.Context(), tx) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		away   func(*testing.T, *core.Store)
		watch  bool // the watches end too
		across bool // also that of all events
	}{
		"the membership ends": {change(func(ctx context.Context, tx *core.Tx) error {
			return person.RemoveMember(ctx, tx, "aero", "member")
		}), true, true},
		"a member is made a viewer": {change(func(ctx context.Context, tx *core.Tx) error {
			return person.SetMember(ctx, tx, person.Membership{Project: "aero", Person: "member", Role: access.Viewer})
		}), false, false},
		"the person is disabled": {change(func(ctx context.Context, tx *core.Tx) error {
			p, err := person.Get(ctx, tx, "member")
			if p.Disabled = true; err != nil {
				return err
			}
			return person.Change(ctx, tx, p)
		}), true, true},
		"the token is revoked": {change(func(ctx context.Context, tx *core.Tx) error {
			return person.RemoveToken(ctx, tx, "member", "t-member")
		}), true, true},
		"the cluster's file names others": {change(func(ctx context.Context, tx *core.Tx) error {
			owner, err := cluster.Get(ctx, tx, "c-aero")
			if err != nil {
				return err
			}
			owner.Spec.Access = &spec.Access{Users: []string{"olga"}}
			_, err = cluster.ChangeSpec(ctx, tx, owner.ID, owner.Spec, 0)
			return err
		}), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := server(t, 2)
			tenants(t, db)
			enterable(t, db)
			open := func(path string, headers ...string) *http.Response {
				r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+path, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i := 0; i < len(headers); i += 2 {
					r.Header.Set(headers[i], headers[i+1])
				}
				r.Header.Set("Authorization", "Bearer member")
				response, err := http.DefaultClient.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = response.Body.Close() })
				return response
			}
			ended := func(response *http.Response) <-chan struct{} {
				done := make(chan struct{})
				go func() {
					defer close(done)
					for lines := bufio.NewReader(response.Body); ; {
						if _, err := lines.ReadString('\n'); err != nil {
							return
						}
					}
				}()
				return done
			}
			tunnel := open("/v1/clusters/aero%2Fcfd/tunnel", "Connection", "Upgrade", "Upgrade", apiv1.TunnelProtocol)
			if tunnel.StatusCode != http.StatusSwitchingProtocols {
				t.Fatal(tunnel.Status)
			}
			gone := ended(tunnel)
			of, all := ended(open("/v1/clusters/aero%2Fcfd/events?watch=true")), ended(open("/v1/events?watch=true"))
			select {
			case <-gone:
				t.Fatal("it ended by itself")
			case <-time.After(1500 * time.Millisecond): // it is looked at once at least
			}
			c.away(t, db)
			await := func(what string, done <-chan struct{}) {
				t.Helper()
				select {
				case <-done:
				case <-time.After(30 * time.Second):
					t.Errorf("%s goes on", what)
				}
			}
			await("the tunnel", gone)
			if c.watch {
				await("the watch of the cluster", of)
			}
			if c.across {
				await("the watch of all events", all)
			}
		})
	}
}

// enterable makes aero's cluster one that has a head to log in to.
func enterable(t *testing.T, db *core.Store) {
	t.Helper()
	settle := func(kind core.Kind, phase core.Phase) {
		t.Helper()
		claims, err := db.Claim(t.Context(), kind, "test", time.Minute, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range claims {
			if err := db.Update(t.Context(), func(tx *core.Tx) error {
				return tx.Settle(t.Context(), c, core.Settlement{Phase: phase, Never: true})
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := db.Update(t.Context(), func(tx *core.Tx) error {
		machines, err := machine.List(t.Context(), tx)
		if err != nil {
			return err
		}
		free := slices.IndexFunc(machines, machine.Machine.Free)
		head := node.Node{ID: "n-head", Cluster: "c-aero", Name: "head", Role: protocol.Head, Class: "service",
			MachineID: machines[free].ID, Machine: machines[free].Name}
		return errors.Join(cluster.AddSeat(t.Context(), tx, "c-aero", cluster.Seat{Name: "head", Slot: 1}),
			node.Add(t.Context(), tx, head))
	}); err != nil {
		t.Fatal(err)
	}
	settle(node.Kind, core.Ready)
	settle(cluster.Kind, core.Ready)
}

// TestAnImageNamesTheClustersThatOneMaySee of those that use it.
func TestAnImageNamesTheClustersThatOneMaySee(t *testing.T) {
	s, db := server(t, 8)
	tenants(t, db)
	hide(t, db)
	update(t, db, func(ctx context.Context, tx *core.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE cluster SET image = 'sha256:00'`)
		return err
	})
	for who, sees := range map[string]bool{"member": false, "operator": true} {
		page := read[apiv1.List[apiv1.Image]](t, call(t, s, "GET", "/v1/images", "", "Authorization", "Bearer "+who))
		if len(page.Items) != 1 || !slices.Contains(page.Items[0].UsedBy, "aero/cfd") ||
			slices.Contains(page.Items[0].UsedBy, "hidden-project/hidden-cluster") != sees {
			t.Errorf("%s: %+v", who, page.Items)
		}
	}
}
