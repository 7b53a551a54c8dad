package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"sort"
)

// Objects that the generated cases start from.
var bases = []struct{ kind, text string }{
	{"apps/v1 Deployment", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"w","labels":{"a":"1","b":"2"},"finalizers":["f/b","f/a"]},"spec":{"replicas":2,
"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"selector":{"matchLabels":{"a":"1"}},"template":{"metadata":{"labels":{"a":"1"}},"spec":{
"containers":[{"name":"c","image":"i:1","args":["x","y"],"env":[{"name":"A","value":"1"},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
"ports":[{"containerPort":80},{"containerPort":81,"protocol":"UDP"}],"volumeMounts":[{"name":"v","mountPath":"/v"}],"resources":{"limits":{"cpu":1}}},{"name":"d","image":"j"}],
"volumes":[{"name":"v","emptyDir":{}},{"name":"s","secret":{"secretName":"s"}}],"tolerations":[{"key":"k","operator":"Exists"}],"imagePullSecrets":[{"name":"p"}]}}}}`},
	{"v1 Service", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","annotations":{"x":"y"}},"spec":{"type":"ClusterIP","selector":{"a":"1"},
"ports":[{"port":80,"targetPort":8080,"name":"http"},{"port":443,"targetPort":"tls","name":"https"}],"externalIPs":["10.0.0.2","10.0.0.1"]}}`},
	{"v1 ConfigMap", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"a":"1","b":"2","c":""},"binaryData":{"d":"aGk="}}`},
	{"v1 ServiceAccount", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"c"},"secrets":[{"name":"a"},{"name":"b"}],"imagePullSecrets":[{"name":"a"}]}`},
	{"", `{"apiVersion":"e.x/v1","kind":"Thing","metadata":{"name":"t","labels":{"a":"1"}},"spec":{"size":3,"ratio":0.5,"list":[{"name":"a","v":1},{"name":"b"}],"deep":{"x":{"y":null,"z":[1,2]}}}}`},
}

// generated makes cases by random changes of the bases; the same each time.
func generated() []testCase {
	random := rand.New(rand.NewSource(41))
	var cases []testCase
	for i := range 240 {
		base := bases[i%len(bases)]
		variant := func(changes int) json.RawMessage {
			var document any
			must(json.Unmarshal([]byte(base.text), &document))
			for range changes {
				change(random, document, 0)
			}
			text, err := json.Marshal(document)
			must(err)
			return text
		}
		kind := base.kind
		if kind == "" && i%2 == 0 {
			kind = "*"
		}
		cases = append(cases, testCase{
			Name: fmt.Sprintf("generated %d", i), Kind: kind,
			Original: variant(random.Intn(5)), Modified: variant(random.Intn(6)), Current: variant(random.Intn(6)),
		})
	}
	return cases
}

// change makes one change somewhere below a value. Names of objects, and what tells kinds apart, stay.
func change(random *rand.Rand, value any, depth int) {
	switch typed := value.(type) {
	case map[string]any:
		var keys []string
		for key := range typed {
			if depth > 0 && (key != "name" || random.Intn(8) == 0) || key == "spec" || key == "metadata" || key == "data" || key == "secrets" {
				keys = append(keys, key)
			}
		}
		sort.Strings(keys)
		if len(keys) == 0 {
			return
		}
		key := keys[random.Intn(len(keys))]
		switch child := typed[key].(type) {
		case map[string]any, []any:
			if depth > 0 && random.Intn(6) == 0 {
				delete(typed, key)
				return
			}
			if list, ok := child.([]any); ok && random.Intn(2) == 0 {
				typed[key] = reordered(random, list)
				return
			}
			change(random, child, depth+1)
		default:
			switch random.Intn(4) {
			case 0:
				delete(typed, key)
			case 1:
				typed[key] = nil
			case 2:
				if number, ok := child.(float64); ok {
					typed[key] = number + 1
				} else {
					typed[key] = fmt.Sprintf("n%d", random.Intn(3))
				}
			default:
				if _, ok := typed["a"]; ok {
					typed[fmt.Sprintf("k%d", random.Intn(3))] = "new"
				}
			}
		}
	case []any:
		if len(typed) > 0 {
			change(random, typed[random.Intn(len(typed))], depth+1)
		}
	}
}

// reordered is a list with an item less, more, or in another place.
func reordered(random *rand.Rand, list []any) []any {
	if len(list) == 0 {
		return list
	}
	at := random.Intn(len(list))
	rest := append(append([]any{}, list[:at]...), list[at+1:]...)
	switch random.Intn(3) {
	case 0:
		return rest
	case 1:
		return append([]any{list[at]}, rest...)
	}
	text, err := json.Marshal(list[at])
	must(err)
	var item any
	must(json.Unmarshal(text, &item))
	switch typed := item.(type) {
	case map[string]any:
		for _, key := range []string{"name", "mountPath"} {
			if name, ok := typed[key].(string); ok {
				typed[key] = fmt.Sprintf("%s%d", name, random.Intn(2))
			}
		}
		for _, key := range []string{"port", "containerPort"} {
			if number, ok := typed[key].(float64); ok {
				typed[key] = number + float64(1+random.Intn(20))
			}
		}
	case string:
		item = fmt.Sprintf("%s%d", typed, random.Intn(3))
	}
	return append(append(append([]any{}, list[:at]...), item), list[at:]...)
}
