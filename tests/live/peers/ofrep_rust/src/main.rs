//! Evaluates flags of a relay once, and prints a line for each.

use open_feature::EvaluationContext;
use open_feature::provider::FeatureProvider;
use open_feature_ofrep::{OfrepOptions, OfrepProvider};

#[tokio::main]
async fn main() {
    let base_url = std::env::args().nth(1).expect("the URL of a relay");
    let options = OfrepOptions { base_url, ..Default::default() };
    let provider = OfrepProvider::new(options).await.expect("a provider");
    let context = EvaluationContext::default();
    let gate = provider.resolve_bool_value("groups", &context).await.expect("a gate");
    println!("groups {} {}", gate.value, gate.variant.unwrap_or_default());
    let level = provider.resolve_int_value("level.group.version", &context).await.expect("a level");
    println!("level.group.version {} {}", level.value, level.variant.unwrap_or_default());
    let missing = provider.resolve_bool_value("missing", &context).await.err().expect("an error");
    println!("missing {:?}", missing.code);
}
