// R8.1, ibv_modify_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::rules::{Allows, call};
use proverbs::state::State;
use proverbs::transport::Transport;

fn stop<T: Transport, S: State, P: Profile>(qp: QueuePair<T, S, P>) -> Result<(), proverbs::Error>
where
    QueuePair<T, S, P>: Allows<call::ToError>,
{
    qp.to_error()?;
    Ok(())
}
