package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	apiv1 "muster/api/v1"
	"muster/internal/core"
)

func TestAnAlarmIsKnownUntilItTellsOfSomethingNewer(t *testing.T) {
	s, db := server(t, 3)
	quarantine := func(machine string) {
		t.Helper()
		if err := db.Update(t.Context(), func(tx *core.Tx) error {
			_, err := tx.Exec(context.Background(), `UPDATE machine SET phase = 'quarantined', phase_at = now_ms() WHERE id = $1`,
				machine)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	stands := func() (alarm apiv1.Alarm) {
		t.Helper()
		var status apiv1.Status
		if err := json.Unmarshal([]byte(call(t, s, "GET", "/v1/status", "").text), &status); err != nil {
			t.Fatal(err)
		}
		for _, a := range status.Alarms {
			if a.ID == "machines-quarantined" {
				alarm = a
			}
		}
		return alarm
	}
	know := func(body string) reply {
		return call(t, s, "PUT", "/v1/alarms/machines-quarantined/acknowledgement", body)
	}
	wants(t, know(`{}`), 404, "no alarm", "muster alarms list")
	quarantine("m1")
	seen := stands()
	if seen.Since == nil || seen.Acknowledged != nil {
		t.Fatalf("%+v", seen)
	}
	for _, wrong := range []string{"31d", "soon", "-1h"} {
		wants(t, know(`{"for": "`+wrong+`"}`), 422, "for")
	}
	const usual = 24 * time.Hour
	wants(t, know(`{"note": "the vendor comes"}`), 200, `"note":"the vendor comes"`)
	if k := stands().Acknowledged; k == nil || k.By != "admin" || k.Until.Sub(k.At) != usual {
		t.Errorf("%+v", k)
	}
	wants(t, know(`{"for": "3d"}`), 200)
	if k := stands().Acknowledged; k == nil || k.Until.Sub(k.At) != 3*usual || k.Note != "" {
		t.Errorf("said again: %+v", k)
	}
	time.Sleep(2 * time.Millisecond) // in another moment than the first
	quarantine("m2")
	if a := stands(); a.Acknowledged != nil || !strings.HasPrefix(a.Text, "2 machines") {
		t.Errorf("a second machine: %+v", a)
	}
	since, err := json.Marshal(seen.Since)
	if err != nil {
		t.Fatal(err)
	}
	wants(t, know(fmt.Sprintf(`{"since": %s}`, since)), 409, "something newer", "2 machines")
	if a := stands(); a.Acknowledged != nil {
		t.Errorf("who had seen one machine knows of two: %+v", a.Acknowledged)
	}
	wants(t, know(`{"since": "2999-01-01T00:00:00Z"}`), 200, `"acknowledged"`)
	time.Sleep(2 * time.Millisecond)
	quarantine("m3")
	if a := stands(); a.Acknowledged != nil {
		t.Errorf("somebody knows what is to come: %+v", a.Acknowledged)
	}
	for _, wrong := range []string{`a\u0000b`, `two\nlines`, strings.Repeat("x", 501)} {
		wants(t, know(`{"note": "`+wrong+`"}`), 422, "note")
	}
	wants(t, know(`{}`), 200, `"acknowledged"`)
	for range 2 { // the second time there is nothing to take back
		wants(t, know(`{"for": "0s", "note": "no"}`), 200)
		if a := stands(); a.Acknowledged != nil {
			t.Errorf("taken back: %+v", a.Acknowledged)
		}
	}
	told := call(t, s, "GET", "/v1/events", "")
	wants(t, told, 200, "machines-quarantined is known to admin: the vendor comes")
	if n := strings.Count(told.text, "machines-quarantined is not acknowledged any more, by admin"); n != 1 {
		t.Errorf("that it is taken back is told %d times", n)
	}
}
