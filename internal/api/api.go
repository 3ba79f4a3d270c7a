// Package api is where intent comes in: HTTP with JSON, described by an OpenAPI 3.1 document that is generated from the
// types here. The command line and the console use nothing else.
//
// What enters: requests with a token. What leaves: calls of admission inside one store transaction, and views of the
// store. It changes no phase and starts nothing.
package api

import (
	"context"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"muster/internal/admission"
	"muster/internal/boot/images"
	"muster/internal/core"
	"muster/internal/core/telemetry"
	"muster/internal/door/console"
	"muster/internal/door/files"
	"muster/internal/door/terminal"
	"muster/internal/door/web"
	"muster/internal/drivers/substrate"
	"muster/internal/identity"
	fabrics "muster/internal/kinds/fabric"
	"muster/internal/kit/space"
)

// ImageStore has the images of a controller.
type ImageStore interface {
	// List reads which there are. Images that are being imported are not among them.
	List() ([]images.Image, error)
}

// API answers users.
type API struct {
	DB        *core.Store
	Admission *admission.Admission
	Authority *identity.Authority
	Images    ImageStore
	Dialer    substrate.Dialer
	Drivers   Drivers
	Login     Login // nil: there are no logins, all come with tokens
	Version   string
	Log       *slog.Logger
	Telemetry *telemetry.Telemetry // nil: nothing is counted
	About     About
	SSH       string           // host:port of this controller's SSH gateway; empty: it has none
	Web       *web.Place       // where the door for web apps is; nil: there is none
	Console   *console.Console // nil: there is none

	// HomeUsage is how many bytes a cluster's /home may hold and holds; 0: not known. nil: of none.
	HomeUsage func(ctx context.Context, cluster string) (size, used int64, err error)

	// Disk is the one that snapshots are on; nil: it is not known, and projects have no shares of it.
	Disk func() (space.Disk, error)

	// Terminals are those of browsers, and Files what they see of files. Both go through the SSH gateway.
	Terminals *terminal.Terminals
	Files     *files.Files

	// CheckFabric says what the driver of a fabric finds wrong in what it is told; nil: there are no drivers.
	CheckFabric func(fabrics.Fabric) error

	// Recipes are the site's own of benchmarks, beside those that every site has; nil: there are none.
	Recipes fs.FS

	// Shares is how much may go on at once; nil: as with a thousand connections.
	Shares *Shares

	probe    probe
	trail    *trail
	newest   newest
	seen     seen
	compress func(http.Handler) http.HandlerFunc
}

// Handler serves the API and the console's files. Operations need a token or the console's cookie, but for those that log
// somebody in, and /healthz, /readyz and /openapi.yaml.
func (a *API) Handler() (http.Handler, error) { return a.serve(a.handlers()) }

// serve answers operations.
func (a *API) serve(handlers []handler) (http.Handler, error) {
	if a.Shares == nil {
		a.Shares = NewShares(1000, a.Telemetry)
	}
	a.trail = newTrail()
	mux := http.NewServeMux()
	document, err := a.register(mux, handlers)
	if err == nil {
		a.compress, err = compression()
	}
	if err != nil {
		return nil, err
	}
	// few ask for it, and it takes longer than all else here
	rendered := sync.OnceValues(func() ([]byte, error) { return render(document) })
	mux.HandleFunc("GET /openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		text, err := rendered()
		if err != nil {
			a.Log.Error("the OpenAPI document", "error", err)
			writeProblem(w, problem(http.StatusInternalServerError, "the OpenAPI document cannot be written",
				"the controller's log says why"))
			return
		}
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(text)
	})
	a.Probes(mux)
	if a.Telemetry != nil {
		mux.HandleFunc("GET /metrics", a.metrics)
	}
	return a.elsewhere(mux), nil
}

// elsewhere answers requests for which there is no path, or no such method: by the console, or with a Problem.
func (a *API) elsewhere(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harmless(w.Header())
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		if a.Console != nil && a.Console.Answers(r) && !strings.HasPrefix(r.URL.Path, "/v1/") {
			a.Console.ServeHTTP(w, r)
			return
		}
		var allowed []string
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
			other := r.Clone(r.Context())
			other.Method = method
			if _, pattern := mux.Handler(other); pattern != "" {
				allowed = append(allowed, method)
			}
		}
		if len(allowed) == 0 {
			writeProblem(w, notFound("there is no "+r.URL.Path, "GET /openapi.yaml lists what there is"))
			return
		}
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeProblem(w, problem(http.StatusMethodNotAllowed, r.Method+" does not fit "+r.URL.Path,
			"it takes "+strings.Join(allowed, ", ")))
	})
}

// harmless tells browsers to believe the type that an answer has, to run nothing of it, to give it to no other site's page, and
// to keep nothing of it, unless the answer says otherwise.
func harmless(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; sandbox")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// OpenAPI is the document that /openapi.yaml serves and api/openapi.yaml keeps.
func OpenAPI(known Drivers) ([]byte, error) {
	a := &API{Drivers: known}
	document, err := a.register(http.NewServeMux(), a.handlers())
	if err != nil {
		return nil, err
	}
	return render(document)
}

// contract is the version of the API. It changes with what clients see, not with every build.
const contract = "1.0.0"

// register puts operations on a server, and describes it.
func (a *API) register(mux *http.ServeMux, handlers []handler) (*huma.OpenAPI, error) {
	config := huma.DefaultConfig("Muster", contract)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath = "", "", ""
	config.Components.Schemas = huma.NewMapRegistry("#/components/schemas/", names)
	config.Transformers = append(config.Transformers, a.logged)
	config.CreateHooks = nil // no $schema links: the document is the reference
	config.Info.Description = "Self-service HPC clusters. Requests say what is wanted; phases and events say what is so. " +
		"Answers to GET have an ETag; with it in If-None-Match, the answer is 304 if nothing has changed."
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer",
		Description: "an API token"}}
	config.Security = []map[string][]string{{"token": {}}}
	api := humago.New(mux, config)
	api.UseMiddleware(a.observed, a.authorise(api, handlers))
	if err := a.bind(api, handlers); err != nil {
		return nil, err
	}
	schemas := api.OpenAPI().Components.Schemas
	if err := a.Drivers.enumerate(schemas); err != nil {
		return nil, err
	}
	a.Drivers.describe(schemas)
	declareCommon(api.OpenAPI())
	return api.OpenAPI(), nil
}
