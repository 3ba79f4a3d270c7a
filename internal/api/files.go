package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	apiv1 "muster/api/v1"
	"muster/internal/door/files"
	"muster/internal/kinds/cluster"
	"muster/internal/kit/limit"
)

// files opens a session with a cluster's files; paths are those that are asked for.
func (a *API) files(ctx context.Context, ref string, paths ...string) (cluster.Cluster, *files.Session, error) {
	c, _, err := a.reachable(ctx, ref, "") // a look at its files alone brings back no paused cluster
	if err != nil {
		return c, nil, err
	}
	for _, one := range paths { // "" comes of a parameter that is not given
		if one == "" || strings.ContainsRune(one, 0) {
			return c, nil, invalid(fmt.Sprintf("path: %.60q is none", one),
				"write for example /home/"+identityOf(ctx)+"/case/mesh.cgns")
		}
	}
	s, err := a.Files.Open(ctx, inside(ctx), c.ID, c.Project+"/"+c.Name)
	return c, s, a.ofFiles(ctx, err, "cluster "+c.Name)
}

// pathOf is a path in words.
func pathOf(path string) string {
	if path == "" {
		return "your directory"
	}
	return strconv.Quote(path)
}

// ofFiles is why something is not done with a file, or with all of a cluster, as who asks may read it.
func (a *API) ofFiles(ctx context.Context, err error, what string) error {
	var refusal *files.Refusal
	var over *limit.Over
	var of *fs.PathError
	if errors.As(err, &of) {
		what, err = pathOf(of.Path), of.Err
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return notFound(what+": it is not there", "")
	case errors.Is(err, fs.ErrPermission):
		return forbidden(fmt.Sprintf("%s: the cluster does not let %s do this", what, identityOf(ctx)), "")
	case errors.Is(err, fs.ErrExist):
		return conflict(what+": it is there already", "")
	case errors.As(err, &refusal):
		return conflict(what+": "+refusal.Text, "")
	case errors.As(err, &over):
		return overLimit(askedOf(ctx).answer, over)
	case errors.Is(err, files.ErrUnfinished):
		return problem(http.StatusBadRequest, what+": "+err.Error(), "")
	}
	return problem(http.StatusServiceUnavailable, fmt.Sprintf("%s: %v", what, err), "try again")
}

func (a *API) listFiles(ctx context.Context, in *apiv1.FileRef) (*output[apiv1.Files], error) {
	_, s, err := a.files(ctx, in.Cluster, cmp.Or(in.Path, "."))
	if err != nil {
		return nil, err
	}
	defer s.Close()
	listing, err := s.List(ctx, in.Path)
	if err != nil {
		return nil, a.ofFiles(ctx, err, pathOf(in.Path))
	}
	out := &output[apiv1.Files]{Body: apiv1.Files{Path: listing.Path, Omitted: listing.Omitted,
		Items: make([]apiv1.File, 0, len(listing.Entries))}}
	for _, e := range listing.Entries {
		kind := "other"
		switch {
		case e.Mode.IsRegular():
			kind = "file"
		case e.Mode.IsDir():
			kind = "directory"
		case e.Mode.Type() == fs.ModeSymlink:
			kind = "link"
		}
		out.Body.Items = append(out.Body.Items, apiv1.File{Name: e.Name, Kind: kind, Directory: e.Directory, Size: e.Size,
			Mode: e.Mode.Perm().String()[1:], Modified: e.Modified})
	}
	return out, nil
}

func (a *API) readFile(ctx context.Context, in *apiv1.FileRef) (*huma.StreamResponse, error) {
	c, s, err := a.files(ctx, in.Cluster, in.Path)
	if err != nil {
		return nil, err
	}
	content, err := s.Read(in.Path)
	if err != nil {
		s.Close()
		return nil, a.ofFiles(ctx, err, pathOf(in.Path))
	}
	return &huma.StreamResponse{Body: func(hctx huma.Context) {
		defer s.Close()
		askedOf(ctx).status = http.StatusOK
		a.audit(hctx, callerOf(ctx)) // now: it may take hours
		defer a.streams(ctx, hctx.Operation().OperationID)()
		still, cancel := a.lasting(ctx, c.ID, stillEnters(ctx, c.ID))
		defer cancel()
		context.AfterFunc(still, s.Close)
		r, w := humago.Unwrap(hctx)
		if strings.Contains(r.Header.Get("Range"), ",") { // each part would be looked for again
			r.Header.Del("Range")
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		name := map[string]string{"filename": path.Base(in.Path)}
		w.Header().Set("Content-Disposition", mime.FormatMediaType("attachment", name))
		http.ServeContent(noted{w, askedOf(ctx)}, r, "", content.Modified, content)
	}}, nil
}

// noted is an answer whose status is noted.
type noted struct {
	http.ResponseWriter
	asked *asked
}

// Unwrap is for http.ResponseController.
func (n noted) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// WriteHeader is http.ResponseWriter's.
func (n noted) WriteHeader(status int) {
	n.asked.status = status
	n.ResponseWriter.WriteHeader(status)
}

func (a *API) writeFile(ctx context.Context, in *apiv1.WriteFileInput) (*output[apiv1.Nothing], error) {
	c, s, err := a.files(ctx, in.Cluster, in.Path)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	defer a.streams(ctx, apiv1.WriteFile.ID)()
	still, cancel := a.lasting(ctx, c.ID, stillEnters(ctx, c.ID))
	defer cancel()
	r := askedOf(ctx).request()
	limit.TakeLong(r)
	return nil, a.ofFiles(ctx, s.Write(still, in.Path, in.Replace, r.Body), pathOf(in.Path))
}

// act does something with a cluster's files. The last path is the one that an error is about.
func (a *API) act(ctx context.Context, ref string, what func(*files.Session) error,
	paths ...string) (*output[apiv1.Nothing], error) {
	_, s, err := a.files(ctx, ref, paths...)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return nil, a.ofFiles(ctx, what(s), pathOf(paths[len(paths)-1]))
}

func (a *API) removeFile(ctx context.Context, in *apiv1.FileRef) (*output[apiv1.Nothing], error) {
	return a.act(ctx, in.Cluster, func(s *files.Session) error { return s.Remove(in.Path) }, in.Path)
}

func (a *API) moveFile(ctx context.Context, in *apiv1.MoveFileInput) (*output[apiv1.Nothing], error) {
	from, to := in.Body.From, in.Body.To
	return a.act(ctx, in.Cluster, func(s *files.Session) error { return s.Move(from, to) }, from, to)
}

func (a *API) makeDirectory(ctx context.Context, in *apiv1.MakeDirectoryInput) (*output[apiv1.Nothing], error) {
	return a.act(ctx, in.Cluster, func(s *files.Session) error { return s.MakeDirectory(in.Body.Path) }, in.Body.Path)
}
