//! Embeddings in the fused kernels: the tables and the layer after them run as one layer over one-hot bits. Twin of
//! `kernels/fused/tables.cuh`.

use crate::network::{Architecture, Chain, Embed, Form, Head, Input, LayerSpec, Network, Outputs, Pool};

/// The layers that the kernels run: those after the tables.
pub fn run_layers(chain: &Chain) -> &[LayerSpec] {
    match chain.layers.split_first() {
        Some((LayerSpec { form: Form::Embed(_), .. }, rest)) => rest,
        _ => &chain.layers,
    }
}

/// Whether the fused kernels can run the network, of a policy. Embeddings need an observation of packed bits.
pub fn runs_fused(network: &Network) -> bool {
    let Architecture { embed, input, outputs, head, .. } = &network.architecture;
    if !is_plain(head)
        || *outputs == Outputs::ActionValues
        || embed.is_some() && !matches!(input, Input::Bits(_))
    {
        return false;
    }
    network.chains.iter().flat_map(run_layers).all(|layer| matches!(layer.form, Form::Dense(_)))
}

/// Whether a policy of real actions is of normals whose log standard deviations are parameters.
pub fn is_plain(head: &Head) -> bool {
    matches!(head, Head::MultiDiscrete(_)) || *head == Head::gaussian(head.components())
}

/// Numbers of a block's partial gradient: of the first layers as the kernels run them, and of all other parameters; a multiple of four.
pub fn partial_len(network: &Network) -> usize {
    let features = network.architecture.input.features();
    let of_chain = |chain: &Chain| {
        let first = &run_layers(chain)[0];
        let tables =
            if chain.layers.len() > run_layers(chain).len() { chain.layers[0].params.len() } else { 0 };
        (first.outputs * features, tables + first.outputs * first.inputs)
    };
    let all = network.chains.iter().map(of_chain);
    all.fold(network.len(), |numbers, (run, made_of)| numbers + run - made_of).next_multiple_of(4)
}

/// Numbers of the first layers' summed gradient; 0 without embeddings.
pub fn first_gradient_len(network: &Network) -> usize {
    if network.architecture.embed.is_some() { partial_len(network) } else { 0 }
}

/// The defines of a network's tables; none without them.
pub fn defines(network: &Network) -> Vec<(String, String)> {
    let Some(embed) = &network.architecture.embed else { return Vec::new() };
    let Embed { parts, width, pool } = embed;
    let (mut column, mut row, mut tables) = (0, 0, Vec::new());
    for part in parts {
        let step = if *pool == Pool::Concat { *width } else { 0 };
        let scale = if *pool == Pool::Mean { part.positions } else { 1 };
        let numbers =
            [part.first, part.positions, part.rows, column, step, row].map(|number| format!("{number}u"));
        tables.push(format!("{{{}, 1.0f / {scale}.0f}}", numbers.join(", ")));
        column += embed.outputs_of(part);
        row += part.rows;
    }
    let passed = embed.passed(network.architecture.input.features()).count();
    let sizes = [
        ("TABLE_PARTS", parts.len()),
        ("TABLE_WIDTH", *width),
        ("TABLE_ROWS", row),
        ("TABLE_INPUTS", column + passed),
        ("TABLE_PASSED", passed),
    ];
    let sizes = sizes.map(|(name, count)| (name.to_owned(), format!("{count}u")));
    [("TABLES".to_owned(), format!("{{{}}}", tables.join(", ")))].into_iter().chain(sizes).collect()
}
