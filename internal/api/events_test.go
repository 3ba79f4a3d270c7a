package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
	"muster/internal/kinds/cluster"
)

// say logs events of a project.
func say(t *testing.T, db *core.Store, project string, texts ...string) {
	t.Helper()
	change(t, db, func(_ context.Context, tx *core.Tx) error {
		for _, text := range texts {
			tx.Log(core.Event{Type: "test", Project: project, Text: text})
		}
		return nil
	})
}

// newest are the texts of events that somebody lists, and the cursor after them.
func newest(t *testing.T, s *httptest.Server, who, query string) (texts []string, next string) {
	t.Helper()
	got := as(t, s, who, "GET", "/v1/events?newest=true"+query, "")
	wants(t, got, 200)
	var page apiv1.List[apiv1.Event]
	if err := json.Unmarshal([]byte(got.text), &page); err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Items {
		texts = append(texts, e.Text)
	}
	return texts, page.Next
}

func TestTheNewestEventsComeFirst(t *testing.T) {
	s, db := server(t, 4)
	tenants(t, db)
	for i := range 3 { // sam is in both
		say(t, db, "aero", fmt.Sprintf("aero %d", i))
		say(t, db, "bio", fmt.Sprintf("bio %d", i))
	}
	texts, next := newest(t, s, "sam", "&limit=3")
	if want := []string{"bio 2", "aero 2", "bio 1"}; !slices.Equal(texts, want) {
		t.Errorf("%q, want %q", texts, want)
	}
	if texts, _ := newest(t, s, "sam", "&limit=2&project=bio"); !slices.Equal(texts, []string{"bio 2", "bio 1"}) {
		t.Errorf("of bio: %q", texts)
	}
	wants(t, as(t, s, "nobody", "GET", "/v1/events?project=bio", ""), 404)
	texts, _ = newest(t, s, "sam", "&limit=2&before="+next)
	if want := []string{"aero 1", "bio 0"}; !slices.Equal(texts, want) {
		t.Errorf("then %q, want %q", texts, want)
	}
}

func TestAWatchOfTheNewestBeginsNow(t *testing.T) {
	s, db := server(t, 1)
	say(t, db, "", "before")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/v1/events?watch=true&newest=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r) // when it answers, it knows what the newest was
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	say(t, db, "", "after")
	if _, text := eventsIn(t, response.Body)(); text != "after" {
		t.Errorf("the first event is %q", text)
	}
}

func TestWhoWatchesIsToldWhatIsSeenWithoutAnEvent(t *testing.T) {
	s, db := server(t, 1)
	tenants(t, db)
	mark := func(id string) {
		change(t, db, func(ctx context.Context, tx *core.Tx) error { return cluster.MarkSeen(ctx, tx, id) })
	}
	mark("c-aero") // before anybody watches
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL+"/v1/events?watch=true&seen=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer member") // of aero alone
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	mark("c-bio")
	mark("c-aero")
	for lines.Scan() {
		if data, is := strings.CutPrefix(lines.Text(), "data: "); is {
			if !strings.Contains(data, `"cluster_id":"c-aero"`) {
				t.Errorf("somebody of aero is told %s", data)
			}
			return
		}
	}
	t.Error(lines.Err())
}
