// What a kubelet does with a DRA driver, against Kubernetes' own packages: for tests of the agent.
//
//	kubelet -registry DIR
//
// It waits for a registration socket in the folder, asks it who it is, checks the answer as a kubelet does, tells it that it
// is registered, and prints "registered NAME ENDPOINT". Then each line on standard input is one call: "prepare NS NAME UID
// [NS NAME UID ...]" or "unprepare ...", answered by one line of JSON; "refuse TEXT" tells the driver that it is not registered.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func fail(err error) {
	fmt.Println("failed " + err.Error())
	os.Exit(1)
}

func dial(path string) *grpc.ClientConn {
	connection, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fail(err)
	}
	return connection
}

func find(dir string) string {
	for range 600 {
		found, _ := filepath.Glob(filepath.Join(dir, "*-reg.sock"))
		if len(found) > 0 {
			return found[0]
		}
		time.Sleep(50 * time.Millisecond)
	}
	fail(fmt.Errorf("no registration socket in %s", dir))
	return ""
}

func claims(words []string) []*dra.Claim {
	var found []*dra.Claim
	for at := 0; at+2 < len(words); at += 3 {
		found = append(found, &dra.Claim{Namespace: words[at], Name: words[at+1], Uid: words[at+2]})
	}
	return found
}

type device struct {
	Requests []string `json:"requests"`
	Pool     string   `json:"pool"`
	Device   string   `json:"device"`
	CDI      []string `json:"cdi"`
}

type answer struct {
	Devices []device `json:"devices"`
	Error   string   `json:"error"`
}

func main() {
	dir := flag.String("registry", "", "")
	flag.Parse()
	about := registration.NewRegistrationClient(dial(find(*dir)))
	ctx := context.Background()
	short, cancel := context.WithTimeout(ctx, 20*time.Second)
	info, err := about.GetInfo(short, &registration.InfoRequest{}, grpc.WaitForReady(true))
	cancel()
	if err != nil {
		fail(err)
	}
	if info.Type != registration.DRAPlugin {
		fail(fmt.Errorf("type %q", info.Type))
	}
	if !slices.Contains(info.SupportedVersions, dra.DRAPluginService) {
		fail(fmt.Errorf("versions %q", info.SupportedVersions))
	}
	driver := dra.NewDRAPluginClient(dial(info.Endpoint))
	if _, err := about.NotifyRegistrationStatus(ctx, &registration.RegistrationStatus{PluginRegistered: true}); err != nil {
		fail(err)
	}
	fmt.Println("registered", info.Name, info.Endpoint)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		found := map[string]answer{}
		call, cancel := context.WithTimeout(ctx, 45*time.Second)
		switch words[0] {
		case "prepare":
			response, err := driver.NodePrepareResources(call, &dra.NodePrepareResourcesRequest{Claims: claims(words[1:])})
			if err != nil {
				found[""] = answer{Error: err.Error()}
			}
			for uid, one := range response.GetClaims() {
				entry := answer{Error: one.Error, Devices: []device{}}
				for _, each := range one.Devices {
					entry.Devices = append(entry.Devices, device{each.RequestNames, each.PoolName, each.DeviceName, each.CdiDeviceIds})
				}
				found[uid] = entry
			}
		case "unprepare":
			response, err := driver.NodeUnprepareResources(call, &dra.NodeUnprepareResourcesRequest{Claims: claims(words[1:])})
			if err != nil {
				found[""] = answer{Error: err.Error()}
			}
			for uid, one := range response.GetClaims() {
				found[uid] = answer{Error: one.Error}
			}
		case "refuse":
			_, err := about.NotifyRegistrationStatus(call, &registration.RegistrationStatus{Error: strings.Join(words[1:], " ")})
			if err != nil {
				found[""] = answer{Error: err.Error()}
			}
		}
		cancel()
		text, _ := json.Marshal(found)
		fmt.Println(string(text))
	}
}
