package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"muster/internal/drivers/substrate"
)

// Size is the length of what Write has put there.
func (s *Substrate) Size(ctx context.Context, cluster string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(len(s.kept[cluster])), ctx.Err()
}

// Save copies it, half of it at a time.
func (s *Substrate) Save(ctx context.Context, cluster, snapshot string, progress func(int64) error) (substrate.Saved, error) {
	s.mu.Lock()
	content, there := s.snapshots[snapshot]
	if !there {
		content = s.kept[cluster]
	}
	room := s.room
	s.mu.Unlock()
	if there {
		return substrate.Saved{Bytes: int64(len(content))}, ctx.Err()
	}
	if room >= 0 && len(content) > room {
		return substrate.Saved{}, fmt.Errorf("%w: the copy takes %d bytes, and %d are free", substrate.ErrNoRoom, len(content),
			room)
	}
	if err := slowly(ctx, content, progress); err != nil {
		return substrate.Saved{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.snapshots[snapshot] = content
	return substrate.Saved{Bytes: int64(len(content))}, nil
}

// Restore copies it to a cluster without shared parts.
func (s *Substrate) Restore(ctx context.Context, snapshot, cluster string, _ int64, progress func(int64) error) error {
	s.mu.Lock()
	content, there := s.snapshots[snapshot]
	done := s.shared[cluster]
	s.mu.Unlock()
	switch {
	case done:
		return ctx.Err()
	case !there:
		return fmt.Errorf("restore cluster %s: there is no snapshot %s", cluster, snapshot)
	}
	if err := slowly(ctx, content, progress); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared[cluster], s.kept[cluster] = true, content
	return nil
}

func slowly(ctx context.Context, content string, progress func(int64) error) error {
	for _, copied := range []int{len(content) / 2, len(content)} {
		if err := progress(int64(copied)); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Drop removes a snapshot.
func (s *Substrate) Drop(ctx context.Context, snapshot string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.snapshots, snapshot)
	return ctx.Err()
}

// Snapshots names all there are.
func (s *Substrate) Snapshots(ctx context.Context) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.snapshots)), ctx.Err()
}

// Write makes this the content of a cluster's /home and state.
func (s *Substrate) Write(cluster, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[cluster] = content
}

// Read is that content.
func (s *Substrate) Read(cluster string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept[cluster]
}

// Fill leaves room for copies of so many bytes; below zero for any.
func (s *Substrate) Fill(room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
}
