package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// schemaOf writes each kind with the number of its type, and each type with its fields that hold objects or lists:
//
//	kind apps/v1 Deployment 7
//	type 7 Deployment metadata=1 spec=8
//	type 9 PodSpec containers=[10!merge/name args=[ nodeSelector={
//
// `[` is a list, `{` a map; a number is a type; `!` precedes the strategies and `/` the merge key.
func schemaOf(known *runtime.Scheme) string {
	var kinds []string
	numbers := map[reflect.Type]int{}
	var order []reflect.Type
	number := func(t reflect.Type) int {
		if n, ok := numbers[t]; ok {
			return n
		}
		numbers[t] = len(order)
		order = append(order, t)
		return numbers[t]
	}
	all := known.AllKnownTypes()
	var names []string
	byName := map[string]reflect.Type{}
	for gvk, t := range all {
		meta, ok := t.FieldByName("ObjectMeta")
		if gvk.Version == runtime.APIVersionInternal || !ok || !meta.Anonymous || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		name := gvk.GroupVersion().String() + " " + gvk.Kind
		names = append(names, name)
		byName[name] = t
	}
	sort.Strings(names)
	for _, name := range names {
		kinds = append(kinds, fmt.Sprintf("kind %s %d\n", name, number(byName[name])))
	}
	var types strings.Builder
	for i := 0; i < len(order); i++ {
		fmt.Fprintf(&types, "type %d %s%s\n", i, order[i].Name(), fieldsOf(order[i], number))
	}
	return strings.Join(kinds, "") + types.String()
}

func fieldsOf(t reflect.Type, number func(reflect.Type) int) string {
	var out strings.Builder
	for i := range t.NumField() {
		field := t.Field(i)
		tag := strings.Split(field.Tag.Get("json"), ",")
		if field.Anonymous && tag[0] == "" {
			inner := field.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && (field.PkgPath == "" || inner.NumField() > 0) {
				out.WriteString(fieldsOf(inner, number))
			}
			continue
		}
		if tag[0] == "-" || tag[0] == "" || field.PkgPath != "" {
			continue
		}
		shape := shapeOf(field.Type, number)
		if shape == "" {
			continue
		}
		fmt.Fprintf(&out, " %s=%s", tag[0], shape)
		if strategy := field.Tag.Get("patchStrategy"); strategy != "" {
			out.WriteString("!" + strategy)
		}
		if key := field.Tag.Get("patchMergeKey"); key != "" {
			out.WriteString("/" + key)
		}
	}
	return out.String()
}

func shapeOf(t reflect.Type, number func(reflect.Type) int) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		return fmt.Sprint(number(t))
	case reflect.Map:
		return "{"
	case reflect.Slice:
		item := t.Elem()
		if item.Kind() == reflect.Pointer {
			item = item.Elem()
		}
		if item.Kind() == reflect.Struct {
			return fmt.Sprintf("[%d", number(item))
		}
		return "["
	default:
		return ""
	}
}
