package rackd

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"muster/internal/kit/netns"
	"muster/internal/rack"
)

// redfish is one machine's BMC: as much of DMTF's DSP0266 as switching it and choosing what it boots from needs.
type redfish struct {
	machine     *machine
	credentials credentials

	lock     sync.Mutex
	sessions map[string]string // token → number
	last     int
}

// Paths of the service.
const (
	redfishRoot     = "/redfish/v1"
	redfishSystems  = redfishRoot + "/Systems"
	redfishChassis  = redfishRoot + "/Chassis"
	redfishManagers = redfishRoot + "/Managers"
	redfishSessions = redfishRoot + "/SessionService/Sessions"
)

// most that a client may send, and how many sessions a BMC keeps.
const (
	mostBody     = 64 << 10
	mostSessions = 16
)

// serveRedfish answers Redfish over HTTPS for a machine at its BMC's address, until the returned function is called.
func serveRedfish(m *machine, c credentials, certificate tls.Certificate, log *slog.Logger) (stop func(), err error) {
	listener, err := netns.Listen(m.folder.Netns(), "tcp", netip.AddrPortFrom(m.BMC, 443).String())
	if err != nil {
		return nil, fmt.Errorf("BMC of %s: %w", m.Name, err)
	}
	r := &redfish{machine: m, credentials: c, sessions: map[string]string{}}
	s := &http.Server{
		Handler: r.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute,
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
		ErrorLog:  slog.NewLogLogger(log.With("bmc", m.Name).Handler(), slog.LevelDebug),
	}
	return inBackground(func() { _ = s.ServeTLS(listener, "", "") }, s.Close), nil
}

// object is a resource, or a part of one.
type object = map[string]any

func link(path string) object { return object{"@odata.id": path} }

func (r *redfish) handler() http.Handler {
	system := redfishSystems + "/" + r.machine.Name
	mux, private := http.NewServeMux(), http.NewServeMux()
	// The root is for all (DSP0266, section 13.3.3), and so is the making of a session, which checks for itself.
	mux.HandleFunc("GET /redfish", shows(object{"v1": redfishRoot + "/"}))
	mux.HandleFunc("GET "+redfishRoot, shows(r.root()))
	mux.HandleFunc("GET "+redfishRoot+"/{$}", shows(r.root()))
	mux.HandleFunc("POST "+redfishSessions, r.login)
	mux.Handle("/", r.guard(private))

	for path, member := range map[string]string{redfishSystems: system, redfishChassis: redfishChassis + "/1",
		redfishManagers: redfishManagers + "/bmc"} {
		private.HandleFunc("GET "+path, shows(collection(path, member)))
	}
	private.HandleFunc("GET "+redfishChassis+"/1", shows(object{
		"@odata.id": redfishChassis + "/1", "@odata.type": "#Chassis.v1_10_0.Chassis", "Id": "1", "Name": "Chassis",
		"ChassisType": "RackMount",
		"Links":       object{"ComputerSystems": []object{link(system)}},
	}))
	private.HandleFunc("GET "+redfishManagers+"/bmc", shows(object{
		"@odata.id": redfishManagers + "/bmc", "@odata.type": "#Manager.v1_5_0.Manager", "Id": "bmc", "Name": "BMC",
		"ManagerType": "BMC",
		"Links":       object{"ManagerForServers": []object{link(system)}},
	}))
	private.HandleFunc("GET "+redfishRoot+"/SessionService", shows(object{
		"@odata.id": redfishRoot + "/SessionService", "@odata.type": "#SessionService.v1_1_8.SessionService",
		"Id":   "SessionService",
		"Name": "Sessions", "ServiceEnabled": true, "Sessions": link(redfishSessions),
	}))
	private.HandleFunc("DELETE "+redfishSessions+"/{number}", r.logout)
	private.HandleFunc("GET "+system, func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, r.system()) })
	private.HandleFunc("PATCH "+system, r.patch)
	private.HandleFunc("POST "+system+"/Actions/ComputerSystem.Reset", r.reset)
	return http.MaxBytesHandler(mux, mostBody)
}

func (r *redfish) root() object {
	return object{
		"@odata.id": redfishRoot, "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot", "Id": "RootService", "Name": "Virtual rack",
		"RedfishVersion": "1.6.0", "Vendor": "Muster", "Product": "rack",
		"Systems": link(redfishSystems), "Chassis": link(redfishChassis), "Managers": link(redfishManagers),
		"SessionService": link(redfishRoot + "/SessionService"), "Links": object{"Sessions": link(redfishSessions)},
	}
}

func collection(path, member string) object {
	return object{
		"@odata.id": path, "@odata.type": "#Collection.Collection", "Name": "Collection",
		"Members": []object{link(member)}, "Members@odata.count": 1,
	}
}

// resetTypes are the ways of ComputerSystem.Reset.
func (r *redfish) resetTypes() map[string]func(context.Context) error {
	m := r.machine
	return map[string]func(context.Context) error{
		"On": m.on, "ForceOn": m.on, "ForceOff": m.off, "ForceRestart": m.reset, "PowerCycle": m.cycle,
		"GracefulShutdown": m.press,
	}
}

func (r *redfish) system() object {
	m, path := r.machine, redfishSystems+"/"+r.machine.Name
	state, enabled, target := "Off", "Disabled", "None"
	if m.isOn() {
		state = "On"
	}
	boot := m.getBoot()
	switch boot.first {
	case netFirst:
		target = "Pxe"
	case diskFirst:
		target = "Hdd"
	}
	if boot.first != "" {
		enabled = "Continuous"
	}
	if boot.once {
		enabled = "Once"
	}
	mode := "Legacy"
	if m.Firmware == rack.UEFI {
		mode = "UEFI"
	}
	return object{
		"@odata.id": path, "@odata.type": "#ComputerSystem.v1_10_0.ComputerSystem", "Id": m.Name, "Name": m.Name,
		"SystemType": "Virtual", "Manufacturer": "Muster", "Model": "rack", "SerialNumber": m.Name, "PowerState": state,
		"Status":           object{"State": "Enabled", "Health": "OK"},
		"ProcessorSummary": object{"Count": m.shape.CPUs},
		"MemorySummary":    object{"TotalSystemMemoryGiB": float64(m.shape.MemoryMiB) / 1024},
		"Boot": object{
			"BootSourceOverrideEnabled": enabled, "BootSourceOverrideTarget": target, "BootSourceOverrideMode": mode,
			"BootSourceOverrideTarget@Redfish.AllowableValues": []string{"None", "Pxe", "Hdd"},
		},
		"Actions": object{"#ComputerSystem.Reset": object{
			"target": path + "/Actions/ComputerSystem.Reset",
			"ResetType@Redfish.AllowableValues": []string{"On", "ForceOn", "ForceOff", "ForceRestart", "PowerCycle",
				"GracefulShutdown"},
		}},
		"Links": object{"Chassis": []object{link(redfishChassis + "/1")}, "ManagedBy": []object{link(redfishManagers + "/bmc")}},
	}
}

// patch sets what to boot from next. Enabled alone, or a target alone, leaves the other as it is.
func (r *redfish) patch(w http.ResponseWriter, request *http.Request) {
	var change struct {
		Boot *struct {
			Target  *string `json:"BootSourceOverrideTarget"`
			Enabled *string `json:"BootSourceOverrideEnabled"`
			Mode    *string `json:"BootSourceOverrideMode"`
		}
	}
	if !r.read(w, request, &change) {
		return
	}
	if change.Boot == nil {
		refuse(w, http.StatusBadRequest, "PropertyUnknown", "only Boot can be changed")
		return
	}
	boot := r.machine.getBoot()
	if t := change.Boot.Target; t != nil {
		first, ok := map[string]order{"None": "", "Pxe": netFirst, "Hdd": diskFirst}[*t]
		if !ok {
			refuse(w, http.StatusBadRequest, "PropertyValueNotInList", "BootSourceOverrideTarget: use None, Pxe or Hdd")
			return
		}
		boot.first = first
	}
	if e := change.Boot.Enabled; e != nil {
		switch *e {
		case "Disabled":
			boot = override{}
		case "Once", "Continuous":
			boot.once = *e == "Once"
		default:
			refuse(w, http.StatusBadRequest, "PropertyValueNotInList",
				"BootSourceOverrideEnabled: use Disabled, Once or Continuous")
			return
		}
	}
	if m := change.Boot.Mode; m != nil && (*m == "UEFI") != (r.machine.Firmware == rack.UEFI) {
		refuse(w, http.StatusBadRequest, "PropertyValueConflict", "BootSourceOverrideMode: this machine's firmware is "+
			r.machine.Firmware)
		return
	}
	if boot.first == "" {
		boot = override{}
	}
	r.machine.setBoot(boot)
	reply(w, http.StatusOK, r.system())
}

func (r *redfish) reset(w http.ResponseWriter, request *http.Request) {
	var action struct{ ResetType string }
	if !r.read(w, request, &action) {
		return
	}
	do := r.resetTypes()[action.ResetType]
	if do == nil {
		refuse(w, http.StatusBadRequest, "ActionParameterValueNotInList", "ResetType: use one of the allowable values")
		return
	}
	// A client that hangs up has still pressed the button.
	switch err := do(context.WithoutCancel(request.Context())); {
	case errors.Is(err, errOff):
		refuse(w, http.StatusConflict, "ResourceInUse", err.Error())
	case err != nil:
		refuse(w, http.StatusInternalServerError, "InternalError", err.Error())
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

// guard lets in who has the password, or a session's token.
func (r *redfish) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		user, password, basic := request.BasicAuth()
		r.lock.Lock()
		_, session := r.sessions[request.Header.Get("X-Auth-Token")]
		r.lock.Unlock()
		if !session && !(basic && r.credentials.are(user, password)) {
			unauthorized(w)
			return
		}
		next.ServeHTTP(w, request)
	})
}

func unauthorized(w http.ResponseWriter) {
	w.Header().Set("WWW-Authenticate", `Basic realm="BMC"`)
	refuse(w, http.StatusUnauthorized, "ResourceAtUriUnauthorized", "user and password, or a session's token, are needed")
}

// are compares in constant time.
func (c credentials) are(user, password string) bool {
	have, want := sha256.Sum256([]byte(user+"\x00"+password)), sha256.Sum256([]byte(c.user+"\x00"+c.password))
	return subtle.ConstantTimeCompare(have[:], want[:]) == 1
}

func (r *redfish) login(w http.ResponseWriter, request *http.Request) {
	var who struct{ UserName, Password string }
	if !r.read(w, request, &who) {
		return
	}
	if !r.credentials.are(who.UserName, who.Password) {
		unauthorized(w)
		return
	}
	r.lock.Lock()
	if len(r.sessions) >= mostSessions {
		clear(r.sessions) // their owners log in again
	}
	r.last++
	token, number := rand.Text(), fmt.Sprint(r.last)
	r.sessions[token] = number
	r.lock.Unlock()
	w.Header().Set("X-Auth-Token", token)
	w.Header().Set("Location", redfishSessions+"/"+number)
	reply(w, http.StatusCreated, object{
		"@odata.id": redfishSessions + "/" + number, "@odata.type": "#Session.v1_3_0.Session", "Id": number, "Name": "Session",
		"UserName": who.UserName,
	})
}

func (r *redfish) logout(w http.ResponseWriter, request *http.Request) {
	r.lock.Lock()
	defer r.lock.Unlock()
	for token, number := range r.sessions {
		if number == request.PathValue("number") {
			delete(r.sessions, token)
			w.WriteHeader(http.StatusNoContent)
			return
		}
	}
	refuse(w, http.StatusNotFound, "ResourceMissingAtURI", "there is no such session")
}

func (r *redfish) read(w http.ResponseWriter, request *http.Request, into any) bool {
	text, err := io.ReadAll(request.Body)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, "MalformedJSON", "the body is no JSON object that fits here")
		return false
	}
	return true
}

func shows(o object) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, o) }
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("OData-Version", "4.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // who has hung up gets nothing
}

// refuse answers with an error as DSP0266, section 8.6, has it.
func refuse(w http.ResponseWriter, status int, code, text string) {
	reply(w, status, object{"error": object{"code": "Base.1.8." + code, "message": text,
		"@Message.ExtendedInfo": []object{{"MessageId": "Base.1.8." + code, "Message": text}}}})
}
