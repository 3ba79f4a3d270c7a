package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"

	apiv1 "muster/api/v1"
	"muster/internal/access"
	"muster/internal/core"
	switches "muster/internal/drivers/switch"
	"muster/internal/kinds"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/machine"
	"muster/internal/kinds/person"
	"muster/internal/price"
	"muster/internal/protocol"
)

// toyInput says what to greet.
type toyInput struct {
	Name string `path:"name" maxLength:"63"`
	Loud bool   `query:"loud" doc:"shout"`
}

type toyAnswer struct {
	Text string `json:"text"`
}

// One entry of the table and one handler make an operation: served, guarded, described, and asked for by its types.
func TestANewOperationIsOneEntryAndOneHandler(t *testing.T) {
	greet := apiv1.Op[toyInput, toyAnswer]{Endpoint: apiv1.Endpoint{ID: "greet", Method: http.MethodGet,
		Path: "/v1/greetings/{name}", Summary: "Greet somebody",
		Tag: "toys", Action: "survey", Errors: []int{404}}}
	answer := func(_ context.Context, in *toyInput) (*output[toyAnswer], error) {
		if in.Name == "nobody" {
			return nil, fmt.Errorf("person %s: %w", in.Name, core.ErrNotFound)
		}
		text := "hello " + in.Name
		if in.Loud {
			text = strings.ToUpper(text)
		}
		return &output[toyAnswer]{Body: toyAnswer{text}}, nil
	}
	a := &API{DB: kindstest.Open(t, t.TempDir()+"/db"), Log: slog.New(slog.DiscardHandler)}
	handler, err := a.serve(append(a.handlers(), on(greet, answer)))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	ctx := t.Context()
	for name, operator := range map[string]bool{"olga": true, "nick": false} {
		if err := a.DB.Update(ctx, func(tx *core.Tx) error {
			if err := person.Add(ctx, tx, person.Person{Name: name, Operator: operator}); err != nil {
				return err
			}
			return person.AddToken(ctx, tx, person.HashToken(name),
				person.Token{ID: "t-" + name, Person: name, Kind: person.APIToken, Scope: access.Whole}, tokenLife)
		}); err != nil {
			t.Fatal(err)
		}
	}
	got, _, err := greet.Call(ctx, apiv1.HTTP{Address: server.URL, Token: "olga"}, toyInput{Name: "a/b", Loud: true})
	if err != nil || got.Text != "HELLO A/B" {
		t.Errorf("the operator got %q, %v", got.Text, err)
	}
	for _, c := range []struct {
		token, name string
		want        int
	}{{"nick", "x", 403}, {"", "x", 401}, {"olga", "nobody", 404}} {
		_, _, err := greet.Call(ctx, apiv1.HTTP{Address: server.URL, Token: c.token}, toyInput{Name: c.name})
		var p *apiv1.Problem
		if !errors.As(err, &p) || p.Status != c.want {
			t.Errorf("%q asks for %s: %v, want %d", c.token, c.name, err, c.want)
		}
	}
	response, err := http.Get(server.URL + "/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "operationId: greet") {
		t.Errorf("the document does not tell of it: %v", err)
	}
}

// A kind that is registered with an alarm is told of by that alone.
func TestWhatFailsOfAKindIsAnAlarmByItsDefinition(t *testing.T) {
	all := append(kinds.All(), core.Definition{Kind: "ticket", Phases: []core.Phase{core.Pending, core.Failed},
		Failures: []core.Phase{core.Failed},
		Alarm:    &core.Alarm{One: "ticket is lost", More: "tickets are lost", Look: "ask for them"}})
	came := time.UnixMilli(1_790_000_000_000)
	count := func(degraded, failed int) kinds.Census {
		return kinds.Census{Phases: map[core.Kind]map[core.Phase]int{
			"fabric": {core.Degraded: degraded, core.Ready: 9}, "ticket": {core.Failed: failed}, "node": {core.Failed: 3},
		}, Newest: map[core.Kind]map[core.Phase]time.Time{"fabric": {core.Degraded: came}, "ticket": {core.Failed: came}}}
	}
	for _, c := range []struct {
		census kinds.Census
		want   []apiv1.Alarm
	}{
		{count(0, 0), nil},
		{count(1, 2), []apiv1.Alarm{
			{Name: "fabrics-degraded", Text: "1 fabric is degraded; `muster fabric list` says why", Since: &came},
			{Name: "tickets-failed", Text: "2 tickets are lost; ask for them", Since: &came},
		}},
	} {
		if got := counted(c.census, all); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// The words that the API's types have as constants are those that the site works with.
func TestTheAPIsWordsAreThoseOfTheSite(t *testing.T) {
	for name, c := range map[string]struct{ said, known []string }{
		"roles":  {texts([]apiv1.Role{apiv1.RoleOwner, apiv1.RoleMember, apiv1.RoleViewer}), texts(access.Roles())},
		"scopes": {texts([]apiv1.Scope{apiv1.ScopeAll, apiv1.ScopeRead}), texts(access.Scopes())},
		"nodes":  {texts([]apiv1.NodeRole{apiv1.RoleHead, apiv1.RoleCompute}), texts(protocol.Roles())},
		"jobs":   {texts(apiv1.JobEnds()), texts(protocol.JobEnds())},
		"lines": {texts([]apiv1.By{apiv1.ByQueue, apiv1.ByNode, apiv1.ByRow}),
			texts([]price.By{price.ByQueue, price.ByNode, price.ByRow})},
		"closed": {texts([]apiv1.SchedulerState{apiv1.NodeDraining, apiv1.NodeDrained}),
			texts([]protocol.State{protocol.NodeDraining, protocol.NodeDrained})},
	} {
		if !slices.Equal(c.said, c.known) {
			t.Errorf("%s: the API says %q, the site %q", name, c.said, c.known)
		}
	}
}

// What the API's fields may hold is told by who registers it, and a field that asks for words that are not registered is a
// mistake.
func TestTheDocumentHasTheWordsThatAreRegistered(t *testing.T) {
	schemas := func() huma.Registry {
		all := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
		all.Schema(typeOf[apiv1.Network](), true, "")
		all.Schema(typeOf[apiv1.Machine](), true, "")
		return all
	}
	d, all := Drivers{Switches: switches.Registry{{Name: "patch"}, {Name: "panel"}}}, schemas()
	if err := d.enumerate(all); err != nil {
		t.Fatal(err)
	}
	if got := all.Map()["Network"].Properties["switch"].Enum; !slices.Equal(got, []any{"patch", "panel"}) {
		t.Errorf("a network's switch is one of %v", got)
	}
	if got := all.Map()["Machine"].Properties["phase"].Enum; !slices.Contains(got, any(string(machine.Quarantined))) {
		t.Errorf("a machine's phase is one of %v", got)
	}
	type wrong struct {
		Phase apiv1.Phase `json:"phase" words:"machin phases"`
	}
	all.Schema(typeOf[wrong](), true, "")
	if err := d.enumerate(all); err == nil || !strings.Contains(err.Error(), "machin phases") {
		t.Error(err)
	}
}
