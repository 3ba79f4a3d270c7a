package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"testing"

	"muster/internal/apiv1"
	"muster/internal/core"
	"muster/internal/door/access"
	"muster/internal/kinds/kindstest"
	"muster/internal/kinds/person"
)

// toyInput says what to greet.
type toyInput struct {
	Name string `path:"name" maxLength:"63"`
	Loud bool   `query:"loud" doc:"shout"`
}

type toyAnswer struct {
	Text string `json:"text"`
}

// carrier is a client of one server.
type carrier struct{ url, token string }

func (c carrier) Do(ctx context.Context, ask apiv1.Ask) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, ask.Operation.Method, c.url+ask.Path+"?"+ask.Query.Encode(),
		strings.NewReader(string(ask.Body)))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		answer, err := httputil.DumpResponse(response, true)
		return nil, fmt.Errorf("%d: %s, %w", response.StatusCode, answer, err)
	}
	return io.ReadAll(response.Body)
}

// One entry of the table and one handler make an operation: served, guarded, described, and asked for by its types.
func TestANewOperationIsOneEntryAndOneHandler(t *testing.T) {
	greet := apiv1.Op[toyInput, toyAnswer]{Endpoint: apiv1.Endpoint{ID: "greet", Method: http.MethodGet,
		Path: "/v1/greetings/{name}", Summary: "Greet somebody",
		Tag: "toys", Action: access.Survey, Errors: []int{404}}}
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
	handler, err := a.serve(append(apiv1.Operations(), greet.Endpoint), append(a.handlers(), on(greet, answer)))
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
	got, _, err := greet.Call(ctx, carrier{server.URL, "olga"}, toyInput{Name: "a/b", Loud: true})
	if err != nil || got.Text != "HELLO A/B" {
		t.Errorf("the operator got %q, %v", got.Text, err)
	}
	for _, c := range []struct{ token, name, want string }{{"nick", "x", "403: "}, {"", "x", "401: "},
		{"olga", "nobody", "404: "}} {
		if _, _, err := greet.Call(ctx, carrier{server.URL, c.token}, toyInput{Name: c.name}); err == nil ||
			!strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q asks for %s: %v, want %s", c.token, c.name, err, c.want)
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

func TestATableAndItsHandlersBelongTogether(t *testing.T) {
	a := &API{}
	table, all := apiv1.Operations(), a.handlers()
	unruled := append([]apiv1.Endpoint{}, table...)
	unruled[0].Action = ""
	for want, c := range map[string]struct {
		table    []apiv1.Endpoint
		handlers []handler
	}{
		"operation list-clusters has no handler":                       {table, all[1:]},
		"operation list-clusters has two handlers":                     {table, append(a.handlers(), all[0])},
		"the handler of list-clusters is of no operation of the table": {table[1:], all},
		"operation list-clusters has no rule who may":                  {unruled, all},
	} {
		if _, err := a.register(http.NewServeMux(), c.table, c.handlers); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
