package serve

import (
	"context"
	"time"

	apiv1 "muster/api/v1"
)

// short says why no more files fit on the data directory's disk; "": they do.
func (k *controller) short(ctx context.Context) string {
	if k.shared == nil {
		return ""
	}
	_, full, _ := k.shared.Room(ctx) // of a disk that cannot be looked at nothing is said
	switch {
	case full == "":
		k.fullSince.Store(nil)
	case k.fullSince.Load() == nil:
		now := time.Now()
		k.fullSince.Store(&now)
	}
	return full
}

func (k *controller) diskAlarms(ctx context.Context) []apiv1.Alarm {
	if text := k.short(ctx); text != "" {
		return []apiv1.Alarm{{ID: k.host, Name: "disk-full", Since: k.fullSince.Load(),
			Text: text + "; no cluster is made, and nothing more can be written to any /home"}}
	}
	return nil
}
