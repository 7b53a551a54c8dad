//! Where the Services of webhooks lead when several operators run: to the one that leads.
//!
//! Only the leader has the hooks' values and snapshots, so that only it can answer. A Service that selects by labels would send
//! the API server to followers too, and a label on Pods outlives its leader; so the Service selects nothing, and the leader
//! writes its own address into the EndpointSlice. The next leader writes its address over it.

use serde_json::{Value, json};

use super::certificates::MANAGER;
use super::configurations::{ClientConfigTarget, EndpointConfig, holds};
use super::{Webhooks, registration};
use windlass_cluster::{ClusterError, Gvk, ObjectMeta, ObjectRef};

impl Webhooks {
    /// The slices that we write, if we do.
    pub(super) fn slices(&self) -> Vec<ObjectRef> {
        let Some(webhook_endpoint) = self.webhook_endpoint().filter(|_| self.options.leader_at.is_some())
        else {
            return Vec::new();
        };
        let mut slices: Vec<ObjectRef> = [&webhook_endpoint.admission, &webhook_endpoint.conversion]
            .into_iter()
            .filter_map(slice)
            .collect();
        slices.dedup();
        slices
    }

    /// Makes the Service of a way lead here.
    pub(super) async fn lead_here(&self, way: &EndpointConfig) -> Result<(), ClusterError> {
        let (Some(address), Some(object)) = (self.options.leader_at, slice(way)) else { return Ok(()) };
        let ClientConfigTarget::Service { namespace, name, port } = &way.reach else { return Ok(()) };
        let service = ObjectRef::new(Gvk::new("v1", "Service"), Some(namespace), name);
        let Some(service) = self.cluster.get(&service).await? else {
            tracing::warn!(
                "Service {name} does not exist: the API server cannot reach webhooks; create it without a selector, with port {port}"
            );
            return Ok(());
        };
        if service["spec"]["selector"].as_object().is_some_and(|s| !s.is_empty()) {
            tracing::warn!(
                "Service {name} selects Pods by labels: it leads to operators that do not answer webhooks, too; without a \
                 selector it leads to the one that does"
            );
            return Ok(());
        }
        let wanted = wanted(&object, &service, *port, address, way.port);
        let live = self.cluster.get(&object).await?;
        if !live.is_some_and(|l| holds(&l, &wanted)) {
            self.cluster.apply(&object, &wanted, registration::options()).await?;
            tracing::info!(%address, "Service {name} leads here");
        }
        Ok(())
    }
}

fn slice(way: &EndpointConfig) -> Option<ObjectRef> {
    let ClientConfigTarget::Service { namespace, name, .. } = &way.reach else { return None };
    let gvk = Gvk::new("discovery.k8s.io/v1", "EndpointSlice");
    Some(ObjectRef::new(gvk, Some(namespace), &format!("{name}-leader")))
}

/// The slice of a Service that leads to a port of an address. The Service's own port gives it its name.
fn wanted(object: &ObjectRef, service: &Value, port: u16, address: std::net::IpAddr, at: u16) -> Value {
    let ports = service["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let name = ports.iter().find(|p| p["port"] == port).and_then(|p| p["name"].as_str()).unwrap_or_default();
    json!({
        "apiVersion": object.gvk.api_version(),
        "kind": object.gvk.kind,
        "metadata": {
            "name": object.name,
            "namespace": object.namespace,
            "labels": {
                "kubernetes.io/service-name": ObjectMeta::of(service).name(),
                "endpointslice.kubernetes.io/managed-by": MANAGER,
            },
        },
        "addressType": if address.is_ipv6() { "IPv6" } else { "IPv4" },
        "endpoints": [{"addresses": [address.to_string()], "conditions": {"ready": true}}],
        "ports": [{"name": name, "port": at, "protocol": "TCP"}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_has_the_name_of_the_port_and_leads_to_ours() {
        let reach = ClientConfigTarget::Service { namespace: "ns".into(), name: "svc".into(), port: 443 };
        let object = slice(&EndpointConfig { reach, authority: String::new(), port: 9651 }).unwrap();
        assert_eq!(object.name, "svc-leader");
        let service = json!({"metadata": {"name": "svc"}, "spec": {"ports": [
            {"name": "other", "port": 80}, {"name": "hooks", "port": 443},
        ]}});
        let v4 = wanted(&object, &service, 443, [10, 0, 0, 7].into(), 9651);
        assert_eq!(v4["ports"], json!([{"name": "hooks", "port": 9651, "protocol": "TCP"}]));
        assert_eq!(v4["endpoints"][0]["addresses"], json!(["10.0.0.7"]));
        assert_eq!(v4["metadata"]["labels"]["kubernetes.io/service-name"], "svc");
        let v6 = wanted(&object, &service, 8443, "fd00::1".parse().unwrap(), 1);
        assert_eq!((&v6["addressType"], &v6["ports"][0]["name"]), (&json!("IPv6"), &json!("")));
    }

    #[test]
    fn an_address_of_its_own_needs_no_slice() {
        let way = EndpointConfig {
            reach: ClientConfigTarget::Url("https://10.0.0.7:1".into()),
            authority: String::new(),
            port: 1,
        };
        assert_eq!(slice(&way), None);
    }
}
