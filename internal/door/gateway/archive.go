package gateway

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"muster/internal/kit/space"
)

// Recorded is how many bytes recordings may take on the disk of this gateway: of one terminal, of one person in one project, of
// one project, and of all. Members choose what their terminals show, and owners whether it is kept; so all of it is bounded.
type Recorded struct{ Terminal, Person, Project, All int64 }

// leastRecording is what a recording counts for at least: files cost room, too.
const leastRecording = 64 << 10

// recounted is how often it is looked whether recordings were taken away, at most.
const recounted = 10 * time.Second

// archive is where recordings are, PROJECT/PERSON/SESSION-N.cast below its directory, and how much they take there.
type archive struct {
	dir     string
	limits  Recorded
	reserve int64 // bytes; 0: the usual

	mu      sync.Mutex
	taken   map[string]int64 // bytes by folder: "" has all, "aero" a project's, "aero/alice" a person's there
	counted time.Time
}

// folder is where a person's recordings of a project are. It is made.
func (s *archive) folder(project, person string) (string, error) {
	dir := filepath.Join(s.dir, project, person)
	return dir, os.MkdirAll(dir, 0o700)
}

// take claims n more bytes for a recording. A *Refusal says which share is full.
func (s *archive) take(project, person string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	disk, err := space.On(s.dir, s.reserve)
	if err != nil {
		return err
	}
	if disk.Left() < n {
		return &Refusal{Text: "the gateway's disk has no room for recordings", Hint: "an operator makes some"}
	}
	shares := []struct {
		folder, whose string
		most          int64
	}{
		{filepath.Join(project, person), "your recordings in project " + project, s.limits.Person},
		{project, "the recordings of project " + project, s.limits.Project}, {"", "all recordings of this gateway", s.limits.All},
	}
	for _, share := range shares {
		if s.taken == nil || s.taken[share.folder]+n > share.most && time.Since(s.counted) > recounted {
			if err := s.count(); err != nil {
				return err
			}
		}
		if s.taken[share.folder]+n > share.most {
			return &Refusal{Text: fmt.Sprintf("%s have reached their limit of %d MiB", share.whose, share.most>>20),
				Hint: "an operator moves old ones to another place"}
		}
	}
	for _, share := range shares {
		s.taken[share.folder] += n
	}
	return nil
}

// count looks how much there is.
func (s *archive) count() error {
	s.taken, s.counted = map[string]int64{}, time.Now()
	return filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) { // there are none yet, or somebody takes them away
			return nil
		}
		if err != nil || entry.IsDir() {
			return err
		}
		below, _ := filepath.Rel(s.dir, path)
		for folder := filepath.Dir(below); ; folder = filepath.Dir(folder) {
			if folder == "." {
				folder = ""
			}
			s.taken[folder] += max(info.Size(), leastRecording)
			if folder == "" {
				return nil
			}
		}
	})
}
